//! Reading the URL: one server, sentinels that know it, or a cluster.

use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};

use crate::error::SettingsError;

/// Where sentinels listen unless the URL says otherwise.
const SENTINEL_PORT: u16 = 26_379;

/// Where servers listen unless the URL says otherwise.
const SERVER_PORT: u16 = 6379;

/// What a URL names.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// One server.
    Server(Place),
    /// Sentinels, which know the server that is the master at the moment.
    Sentinels {
        sentinels: Vec<Place>,
        master: String,
        /// How to log in at the master.
        login: RedisConnectionInfo,
        tls: bool,
    },
    /// Some nodes of a cluster, which know the others.
    Cluster { seeds: Vec<Place> },
}

/// One server and how to log in there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) address: Address,
    pub(crate) login: RedisConnectionInfo,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl Target {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self, SettingsError> {
        let (scheme, rest) = url.split_once("://").ok_or(SettingsError::Scheme)?;
        if rest.contains('#') {
            return Err(SettingsError::Url("it must not have a fragment (`#…`)"));
        }
        let (product, form) = scheme.split_once('+').unwrap_or((scheme, ""));
        let tls = matches!(product, "rediss" | "valkeys");
        if !tls && !matches!(product, "redis" | "valkey") && scheme != "unix" {
            return Err(SettingsError::Scheme);
        }
        match form {
            "" if scheme == "unix" => Ok(Self::Server(unix_place(rest)?)),
            "unix" if !tls => Ok(Self::Server(unix_place(rest)?)),
            "" => Ok(Self::Server(place(rest, tls)?)),
            "sentinel" => sentinels(&Parts::split(rest), tls),
            "cluster" => cluster(&Parts::split(rest), tls),
            _ => Err(SettingsError::Scheme),
        }
    }

    /// Whether certificates are needed.
    pub(crate) fn uses_tls(&self) -> bool {
        match self {
            Self::Server(place) => place.address.uses_tls(),
            Self::Sentinels { tls, .. } => *tls,
            Self::Cluster { seeds } => seeds.iter().any(|seed| seed.address.uses_tls()),
        }
    }
}

impl Address {
    fn uses_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

/// The parts of a URL with several hosts, which the usual parsers do not take.
struct Parts<'a> {
    user: &'a str,
    hosts: Vec<&'a str>,
    path: Vec<&'a str>,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn split(rest: &'a str) -> Self {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        Self {
            user,
            hosts: hosts.split(',').collect(),
            path: path.split('/').filter(|part| !part.is_empty()).collect(),
            query,
        }
    }

    fn option(&self, name: &str) -> Option<&'a str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    fn places(&self, user: &str, port: u16, tls: bool) -> Result<Vec<Place>, SettingsError> {
        let at = if user.is_empty() { "" } else { "@" };
        self.hosts
            .iter()
            .map(|host| {
                let has_port = host.rfind(':') > host.rfind(']');
                let port = if has_port { String::new() } else { format!(":{port}") };
                place(&format!("{user}{at}{host}{port}"), tls)
            })
            .collect()
    }
}

fn sentinels(parts: &Parts<'_>, tls: bool) -> Result<Target, SettingsError> {
    let (master, db) = match parts.path[..] {
        [master] => (master, "0"),
        [master, db] => (master, db),
        _ => return Err(SettingsError::Url("after the sentinels it must name the master: /name")),
    };
    let at = if parts.user.is_empty() { "" } else { "@" };
    let login = place(&format!("{}{at}master/{db}", parts.user), tls)?.login;
    let user = match (parts.option("sentinel_username"), parts.option("sentinel_password")) {
        (name, Some(password)) => format!("{}:{password}", name.unwrap_or_default()),
        (_, None) => String::new(),
    };
    let sentinels = parts.places(&user, SENTINEL_PORT, tls)?;
    Ok(Target::Sentinels { sentinels, master: master.to_owned(), login, tls })
}

fn cluster(parts: &Parts<'_>, tls: bool) -> Result<Target, SettingsError> {
    if !matches!(parts.path[..], [] | ["0"]) {
        return Err(SettingsError::Url("a cluster has no other database than 0"));
    }
    Ok(Target::Cluster { seeds: parts.places(parts.user, SERVER_PORT, tls)? })
}

/// Reads `user:password@host:port/db`.
fn place(rest: &str, tls: bool) -> Result<Place, SettingsError> {
    // The driver's own TLS is not compiled in; what is around it is the same.
    let info = format!("redis://{rest}").into_connection_info().map_err(|_| {
        SettingsError::Url("the host, port, user, password or database number cannot be read")
    })?;
    let ConnectionAddr::Tcp(host, port) = info.addr() else { return Err(SettingsError::Scheme) };
    let address = Address::Tcp { host: host.clone(), port: *port, tls };
    Ok(Place { address, login: login(info.redis_settings()) })
}

/// Reads `/path?db=…&user=…&pass=…`.
fn unix_place(rest: &str) -> Result<Place, SettingsError> {
    let info = format!("unix://{rest}").into_connection_info().map_err(|_| {
        SettingsError::Url("the path of the socket or the database number cannot be read")
    })?;
    let ConnectionAddr::Unix(path) = info.addr() else { return Err(SettingsError::Scheme) };
    Ok(Place { address: Address::Unix(path.clone()), login: login(info.redis_settings()) })
}

/// The older protocol, in which every answer has one shape only.
fn login(info: &RedisConnectionInfo) -> RedisConnectionInfo {
    info.clone()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("mintage", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, tls: bool) -> Address {
        Address::Tcp { host: host.to_owned(), port, tls }
    }

    fn server(url: &str) -> Place {
        match Target::parse(url).unwrap() {
            Target::Server(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_server() {
        let place = server("redis://me:se%40cret@cache.example:7000/3");
        assert_eq!(place.address, tcp("cache.example", 7000, false));
        assert_eq!(place.login.username(), Some("me"));
        assert_eq!(place.login.password(), Some("se@cret"));
        assert_eq!(place.login.db(), 3);
        assert_eq!(server("rediss://cache").address, tcp("cache", 6379, true));
        assert_eq!(server("valkeys://[::1]:1").address, tcp("::1", 1, true));
        assert_eq!(
            server("unix:///run/redis.sock").address,
            Address::Unix("/run/redis.sock".into())
        );
        assert_eq!(server("redis+unix:///run/r?db=2&pass=x").login.db(), 2);
    }

    #[test]
    fn sentinels_with_a_password_of_their_own() {
        let url = "redis+sentinel://:pw@one,two:5000,[::1]/main/2?sentinel_password=other";
        let Target::Sentinels { sentinels, master, login, tls } = Target::parse(url).unwrap()
        else {
            panic!("these are sentinels");
        };
        let addresses: Vec<_> = sentinels.iter().map(|place| place.address.clone()).collect();
        let expected =
            [tcp("one", 26_379, false), tcp("two", 5000, false), tcp("::1", 26_379, false)];
        assert_eq!(addresses, expected);
        assert_eq!(sentinels[0].login.password(), Some("other"));
        assert_eq!((master.as_str(), tls), ("main", false));
        assert_eq!((login.password(), login.db()), (Some("pw"), 2));
    }

    #[test]
    fn a_cluster() {
        let Target::Cluster { seeds } = Target::parse("rediss+cluster://:pw@one,two:7001").unwrap()
        else {
            panic!("this is a cluster");
        };
        let addresses: Vec<_> = seeds.iter().map(|place| place.address.clone()).collect();
        assert_eq!(addresses, [tcp("one", 6379, true), tcp("two", 7001, true)]);
        assert_eq!(seeds[1].login.password(), Some("pw"));
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_naming_the_password() {
        for url in [
            "cache:6379",
            "http://:hunter2@cache",
            "redis://:hunter2@cache/x",
            "redis://:hunter2@cache:99999",
            "rediss://:hunter2@cache/#insecure",
            "redis+cluster://:hunter2@one/1",
            "redis+sentinel://:hunter2@one",
            "redis+sentinel://:hunter2@one/main/zero",
            "rediss+unix:///run/r?pass=hunter2",
            "redis+magic://:hunter2@one",
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }
}
