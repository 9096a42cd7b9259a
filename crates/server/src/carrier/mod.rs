//! Deliveries to addresses and directories that clients have chosen.
//!
//! The name in an address is looked up for every request, and the connection goes to one of the
//! addresses that were found and checked, so that nobody can show us one address and lead us to
//! another.

mod addresses;
mod files;
mod hands;
mod lookups;
mod room;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use engine::outbox::{Carrier, Letter, Method, Reply, WriteOrder};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Url};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tracing::warn;

use self::hands::{Hands, NotDone};
use self::lookups::Lookups;
use self::room::{Bounds, Full, Room};
use crate::config::OutboundConfig;

/// The longest address.
const URL_BYTES_MAX: usize = 2000;

/// How long a connection may take to come about.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Threads in file systems. The pool that they are from also serves others, and has several times as many.
/// Sinks can share a directory, and each has one write at a time.
const IN_FILE_SYSTEMS: Bounds =
    Bounds { in_all: 64, in_place: 4, wait_max: Duration::from_secs(1) };

/// The most requests at once, and how many there may be for each host among these. Every one is a
/// connection. Whoever waits for longer than a connection may take is told what it waits for.
const REQUESTS_MAX: usize = 1024;
const HOSTS_TO_FILL_IT: usize = 4;
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(10);

/// How long the directory of sinks may take to say that it is there, and what it means if it does not.
const CHECK_MAX: Duration = Duration::from_secs(5);
const NO_ANSWER: &str = "the server's outbound.directory does not answer";

/// Makes requests and writes files.
pub(crate) struct RealCarrier {
    policy: Policy,
    root_file: Option<PathBuf>,
    /// What all directories of sinks are in; none if there are to be no such sinks.
    directory: Option<PathBuf>,
    hands: Hands,
    /// Requests that are under way, by host.
    requests: Room,
    /// Made when it is first needed: reading the certificates of a system takes a while.
    client: OnceCell<Client>,
}

impl RealCarrier {
    /// Makes the directory of sinks, if it is missing.
    pub(crate) fn new(config: &OutboundConfig) -> anyhow::Result<Self> {
        if let Some(directory) = &config.directory {
            std::fs::create_dir_all(directory).with_context(|| {
                format!("cannot make outbound.directory {}", directory.display())
            })?;
        }
        let policy = Policy { private_addresses: config.private_addresses };
        let (root_file, directory) = (config.tls_root_file.clone(), config.directory.clone());
        let hands = Hands::new(IN_FILE_SYSTEMS);
        let requests = Room::new(requests_within(open_files_max()));
        Ok(Self { policy, root_file, directory, hands, requests, client: OnceCell::new() })
    }

    fn root(&self) -> Result<PathBuf, String> {
        let missing = || "this server's configuration has no outbound.directory".to_owned();
        self.directory.clone().ok_or_else(missing)
    }

    async fn client(&self) -> anyhow::Result<&Client> {
        let make = || async {
            let (policy, root_file) = (self.policy, self.root_file.clone());
            tokio::task::spawn_blocking(move || client(policy, root_file.as_deref())).await?
        };
        self.client.get_or_try_init(make).await
    }
}

/// How many files and connections this process may have open.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// A quarter of what may be open is for requests, so that receivers which hang leave enough for clients
/// and the store.
fn requests_within(open_files_max: usize) -> Bounds {
    let in_all = (open_files_max / 4).clamp(HOSTS_TO_FILL_IT, REQUESTS_MAX);
    Bounds { in_all, in_place: in_all / HOSTS_TO_FILL_IT, wait_max: REQUEST_WAIT_MAX }
}

fn no_hands(why: &NotDone) -> String {
    let what = match why {
        NotDone::Full(Full::There) => "the directory",
        NotDone::Full(Full::Everywhere) => "the server's outbound.directory",
        NotDone::Interrupted => return "writing was interrupted".to_owned(),
    };
    format!("{what} does not answer: earlier writes to it are still under way")
}

fn no_room(full: &Full) -> String {
    match full {
        Full::There => "earlier requests to this host are still under way",
        Full::Everywhere => "too many requests of the server are under way",
    }
    .to_owned()
}

#[async_trait]
impl Carrier for RealCarrier {
    fn check_address(&self, url: &str) -> Result<(), String> {
        self.policy.check(url).map(drop)
    }

    async fn check_directory(&self, name: &str) -> Result<(), String> {
        let root = self.root()?;
        files::check_directory(name)?;
        let check = self.hands.run("", move || files::check_root(&root));
        let checked = timeout(CHECK_MAX, check).await.map_err(|_| NO_ANSWER.to_owned())?;
        checked.map_err(|why| no_hands(&why))?
    }

    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>> {
        let count = order.files.len();
        let written = async {
            // The settings of the server may have changed since the directory was taken.
            let root = self.root()?;
            files::check_directory(&order.directory)?;
            let place = format!("{}/{}", order.tenant, order.directory);
            let write = move || files::write_order(&root, &order);
            self.hands.run(&place, write).await.map_err(|why| no_hands(&why))?
        };
        written.await.unwrap_or_else(|problem| vec![Err(problem); count])
    }

    async fn post(&self, letter: Letter) -> Result<Reply, String> {
        // The settings of the server may have changed since the address was taken.
        let url = self.policy.check(&letter.url)?;
        let client = self.client().await.map_err(|error| {
            // What the server's files are called is nobody else's business.
            warn!("cannot make requests to receivers: {error:#}");
            "the server cannot make requests; its log says why".to_owned()
        })?;
        let host = url.host_str().unwrap_or_default();
        let _permit = self.requests.enter(host).await.map_err(|full| no_room(&full))?;
        let request = match letter.method {
            Method::Post => client.post(url),
            Method::Put => client.put(url),
        };
        let mut request = request.header(CONTENT_TYPE, "application/json");
        for (name, value) in letter.headers {
            request = request.header(name, value);
        }
        let response = request.body(letter.body).send().await.map_err(|error| explain(&error))?;
        let retry_after = retry_after(response.headers());
        Ok(Reply { status: response.status().as_u16(), retry_after })
    }
}

fn client(policy: Policy, root_file: Option<&Path>) -> anyhow::Result<Client> {
    let roots = if let Some(file) = root_file {
        roots_of(file).with_context(|| format!("cannot use {}", file.display()))?
    } else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Arc::new(Lookups::new(policy)))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .connect_timeout(CONNECT_MAX)
        // A kept connection would be one whose address is not looked up again.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("mintage/", env!("CARGO_PKG_VERSION")))
        .build()?;
    Ok(client)
}

fn roots_of(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    anyhow::ensure!(!roots.is_empty(), "there is no certificate in it");
    Ok(roots)
}

/// The innermost cause says what happened; those around it only that it did. The address is left out:
/// it may hold a secret.
fn explain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match () {
        () if error.is_connect() => format!("cannot connect: {cause}"),
        () => format!("no answer: {cause}"),
    }
}

/// Seconds only: a date would have to be compared with a clock that is not ours.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Whom to make requests to.
#[derive(Debug, Clone, Copy)]
struct Policy {
    private_addresses: bool,
}

impl Policy {
    fn allows(self, address: IpAddr) -> bool {
        self.private_addresses || addresses::is_public(address)
    }

    /// Reads an address. Where it leads to is only known once it is looked up, unless it has no name.
    fn check(self, text: &str) -> Result<Url, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("the address is longer than {URL_BYTES_MAX} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("this is no address: {error}"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.private_addresses => {}
            _ => return Err("the address must begin with https://".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address must not have a user or a password in it".to_owned());
        }
        if url.fragment().is_some() {
            return Err("the address must not have a fragment".to_owned());
        }
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(address) if !self.allows(address) => {
                Err(format!("{address} is not out on the internet"))
            }
            _ => Ok(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_lead_inside_are_refused_however_they_are_written() {
        let policy = Policy { private_addresses: false };
        for url in [
            "",
            "example.com",
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://user@example.com/",
            "https://:secret@example.com/",
            "https://example.com/#part",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://017700000001/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "https://①②⑦.⓪.⓪.①/",
        ] {
            assert!(policy.check(url).is_err(), "{url}");
        }
        for url in ["https://example.com/hook?a=b", "https://1.1.1.1:8443/", "https://[2606::1]/"] {
            assert!(policy.check(url).is_ok(), "{url}");
        }
        let open = Policy { private_addresses: true };
        assert!(open.check("http://127.0.0.1:9000/").is_ok());
        assert!(open.check("gopher://127.0.0.1/").is_err());
    }

    #[test]
    fn requests_leave_most_of_what_may_be_open_to_others() {
        for (open, in_all, in_place) in
            [(usize::MAX, 1024, 256), (4096, 1024, 256), (1024, 256, 64), (256, 64, 16), (3, 4, 1)]
        {
            let bounds = requests_within(open);
            assert_eq!((bounds.in_all, bounds.in_place), (in_all, in_place), "{open}");
        }
    }
}
