//! Where a database is: URLs, and how to speak of them without their password.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

use crate::PostgresSettings;
use crate::error::OpenError;

/// How a server that is cut off is noticed: by a probe on a connection where nothing happens, and
/// by data that is not acknowledged.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(5);

/// A URL, read.
pub(crate) struct Address {
    pub(crate) config: Config,
    /// Whether the server has to prove who it is.
    pub(crate) verify: bool,
    /// Overrides the file in the settings, as libpq's `sslrootcert` does.
    pub(crate) tls_root_file: Option<PathBuf>,
    /// Without user and password, for messages.
    pub(crate) shown: String,
}

impl Address {
    /// Reads a URL. `writable` is for a database that has to take writes: a server that does not
    /// is passed over, as after a failover.
    pub(crate) fn read(
        url: &str,
        settings: &PostgresSettings,
        writable: bool,
    ) -> Result<Self, OpenError> {
        let shown = shown(url);
        let refuse = |what: String| OpenError::Address { address: shown.clone(), what };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refuse("it does not begin with postgres://".to_owned()));
        }
        let Options { url, ssl_mode, tls_root_file } = take_options(url);
        let mut config: Config =
            url.parse().map_err(|error: tokio_postgres::Error| refuse(cause(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(refuse("it names no host".to_owned()));
        }
        if config.get_user().is_none() {
            return Err(refuse("it names no user".to_owned()));
        }
        let (mode, verify) = match ssl_mode.as_deref() {
            None | Some("prefer") => (SslMode::Prefer, false),
            Some("disable") => (SslMode::Disable, false),
            Some("require" | "verify-full") => (SslMode::Require, true),
            Some(_) => {
                return Err(refuse(
                    "sslmode must be disable, prefer, require or verify-full".to_owned(),
                ));
            }
        };
        config
            .ssl_mode(mode)
            .application_name(&settings.application_name)
            .connect_timeout(settings.connect_timeout)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES);
        if writable {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Self { config, verify, tls_root_file, shown })
    }
}

/// A URL without the options that only we read.
struct Options {
    url: String,
    ssl_mode: Option<String>,
    tls_root_file: Option<PathBuf>,
}

/// The driver knows fewer modes than we do, and no file.
fn take_options(url: &str) -> Options {
    let Some((base, query)) = url.split_once('?') else {
        return Options { url: url.to_owned(), ssl_mode: None, tls_root_file: None };
    };
    let mut options = Options { url: base.to_owned(), ssl_mode: None, tls_root_file: None };
    let mut separator = '?';
    for option in query.split('&') {
        match option.split_once('=') {
            Some(("sslmode", mode)) => options.ssl_mode = Some(mode.to_owned()),
            Some(("sslrootcert", file)) => {
                options.tls_root_file = Some(PathBuf::from(file.replace("%2F", "/")));
            }
            _ => {
                options.url.push(separator);
                options.url.push_str(option);
                separator = '&';
            }
        }
    }
    options
}

/// A URL as it may be shown: host, port and database. Where these cannot be told from the password
/// for certain, nothing.
pub(crate) fn shown(url: &str) -> String {
    let rest = url.split_once('?').map_or(url, |(rest, _)| rest);
    // A password may hold an @ that somebody forgot to write as %40.
    match rest.rsplit_once('@') {
        Some((_, place)) => place.to_owned(),
        None => "(a URL without a user)".to_owned(),
    }
}

/// What is wrong, in the words of the innermost error.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Address, OpenError> {
        Address::read(url, &PostgresSettings::new(url), true)
    }

    #[test]
    fn the_password_is_never_shown() {
        for url in [
            "postgres://mintage:secret@db:5432/ids",
            "postgres://mintage:se@cret@db:5432/ids?sslmode=require&password=secret",
        ] {
            assert_eq!(shown(url), "db:5432/ids");
            let settings = PostgresSettings::new(url);
            assert!(!format!("{settings:?}").contains("cret"));
        }
        for url in [
            "postgres://mintage:secret@db:port/ids",
            "postgres://mintage:secret@db/ids?sslmode=sometimes",
            "postgres://mintage:secret@db/ids?secret=secret2",
            "mysql://mintage:secret@db/ids",
            "postgres:mintage:secret",
        ] {
            let refused = read(url).err().expect("it is refused").to_string();
            assert!(!refused.contains("mintage:secret"), "{refused}");
        }
    }

    #[test]
    fn modes_of_encryption_are_read() {
        for (option, mode, verify) in [
            ("", SslMode::Prefer, false),
            ("?sslmode=prefer", SslMode::Prefer, false),
            ("?sslmode=disable", SslMode::Disable, false),
            ("?connect_timeout=3&sslmode=require", SslMode::Require, true),
            ("?sslmode=verify-full&sslrootcert=%2Fca.pem", SslMode::Require, true),
        ] {
            let address = read(&format!("postgres://a:b@db/ids{option}")).unwrap();
            assert_eq!((address.config.get_ssl_mode(), address.verify), (mode, verify), "{option}");
        }
        let address = read("postgres://a:b@db/ids?sslrootcert=%2Fca.pem").unwrap();
        assert_eq!(address.tls_root_file, Some(PathBuf::from("/ca.pem")));
    }
}
