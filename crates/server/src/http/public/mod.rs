//! `/v/{type}/{code}`: the verdict for anybody, without an API key.
//!
//! A stranger learns whether a code is genuine and nothing else. Everything that is not known has one
//! answer, which comes after the same time, and how often somebody may ask is limited. Loading the page
//! counts nothing: its script does, with a token that only the page has.

mod address;
mod ask;
mod limits;
mod page;
mod routes;
mod token;
mod verdict;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::request::Parts;
use engine::LiveType;
use engine::surroundings::{Clock, Entropy};
use idgen::format::Format;
use idgen::spec::DEFAULT_TENANT;
use ipnet::IpNet;

use self::limits::Limits;
use self::page::Page;
pub(super) use self::routes::*;
use self::token::Tokens;
use super::App;
use super::metrics::PublicResult;
use super::problem::Problem;
use crate::config::PublicType;
use crate::percent;

/// Where the addresses begin.
pub(super) const PREFIX: &str = "/v/";

/// The address that a request came from, as the listener sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// What [`Public`] is made from.
pub(crate) struct PublicParts {
    pub(crate) types: Vec<PublicType>,
    pub(crate) scans_per_minute: u32,
    pub(crate) scans_per_minute_of_network: u32,
    /// When an unknown code is answered.
    pub(crate) miss: Duration,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) token_key: [u8; 32],
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// What strangers may ask, and what it takes to answer them.
pub(crate) struct Public {
    types: Vec<PublicType>,
    trusted_proxies: Vec<IpNet>,
    miss: Duration,
    limits: Limits,
    tokens: Tokens,
    page: Page,
    /// A public type that is asked in the place of one that does not exist.
    stand_in: OnceLock<Arc<LiveType>>,
}

/// What somebody wants to know about.
struct Visit {
    tenant: String,
    type_name: String,
    code: String,
}

impl Visit {
    /// Reads the address. It is not the router that does, because that refuses what is no text, and
    /// strangers get one answer for everything.
    fn read(path: &str) -> Self {
        let parts = path.strip_prefix(PREFIX).unwrap_or_default().split('/');
        let mut parts = parts.map(percent::unescape).rev();
        let mut next = || parts.next();
        let (code, type_name) = (next().unwrap_or_default(), next().unwrap_or_default());
        Self { tenant: next().unwrap_or_else(|| DEFAULT_TENANT.to_owned()), type_name, code }
    }

    /// What a token is good for.
    fn page(&self) -> String {
        format!("{}/{}/{}", self.tenant, self.type_name, self.code)
    }
}

impl Public {
    pub(crate) fn new(parts: PublicParts) -> Self {
        Self {
            types: parts.types,
            trusted_proxies: parts.trusted_proxies,
            miss: parts.miss,
            limits: Limits::new(parts.scans_per_minute, parts.scans_per_minute_of_network),
            tokens: Tokens::new(&parts.token_key, parts.clock, parts.entropy),
            page: Page::new(),
            stand_in: OnceLock::new(),
        }
    }

    fn includes(&self, live: &LiveType) -> bool {
        let id_type = &live.stored().id_type;
        matches!(live.format(), Format::Random(_))
            && self.types.iter().any(|entry| entry.includes(id_type.tenant(), id_type.name()))
    }

    /// The ID type of a visit, if strangers may ask about it.
    fn find(&self, app: &App, visit: &Visit) -> Option<Arc<LiveType>> {
        let live = app.engine.catalogue.find(&visit.tenant, &visit.type_name).ok();
        live.filter(|live| self.includes(live))
    }

    /// Any public type.
    fn any(&self, app: &App) -> Option<&LiveType> {
        if self.stand_in.get().is_none() {
            let mut all = app.engine.catalogue.all().into_iter();
            all.find(|live| self.includes(live)).map(|live| self.stand_in.set(live));
        }
        self.stand_in.get().map(|live| &**live)
    }

    /// Counts a request against the limits.
    fn admit(&self, app: &App, request: &Parts) -> Result<(), Problem> {
        let peer = request.extensions.get::<Peer>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
        let address = address::client_address(peer, &request.headers, &self.trusted_proxies);
        self.limits.count(address).map_err(|seconds| {
            app.metrics.count_public(PublicResult::Limited);
            Problem::too_many_scans(seconds)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_whatever_it_contains() {
        let read = |path: &str| Visit::read(path).page();
        assert_eq!(read("/v/bottle/AB%20CD"), "default/bottle/AB CD");
        assert_eq!(read("/v/PROJ/bottle/ABCD"), "PROJ/bottle/ABCD");
        assert_eq!(read("/v/bottle/%ff"), "default/bottle/\u{fffd}");
    }
}
