//! Who is calling, what they may do, and how often.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use engine::RateState;
use engine::keys::{Keys, LiveKey};
use idgen::spec::DEFAULT_TENANT;
use storage::Scope;

use super::problem::Problem;

/// When an API key is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Always.
    KeyNeeded,
    /// As soon as there is one. The server listens on loopback.
    OpenWithoutKeys,
    /// Never. The server listens on loopback.
    Open,
}

/// Who is calling. `None` where the server runs open.
#[derive(Clone)]
pub(crate) struct Caller {
    key: Option<Arc<LiveKey>>,
    pub(crate) rate: Option<RateState>,
}

impl Caller {
    /// Finds out who is calling, checks that they may, and counts the request.
    pub(crate) fn identify(
        headers: &HeaderMap,
        keys: &Keys,
        access: Access,
        scope: Scope,
    ) -> Result<Self, Problem> {
        let Some(key) = known_key(headers, keys, access)? else {
            return Ok(Self { key: None, rate: None });
        };
        let rate = keys.count_request(&key);
        if let Some(rate) = rate.filter(|rate| rate.retry_after_seconds > 0) {
            return Err(Problem::too_many_requests(rate));
        }
        if !key.allows(scope) {
            let detail = format!("The key does not have the scope {}.", scope.name());
            return Err(Problem::forbidden("missing_scope", detail));
        }
        Ok(Self { key: Some(key), rate })
    }

    /// The number of the key in the issue log; 0 where the server runs open.
    pub(crate) fn key_id(&self) -> i64 {
        self.key.as_ref().map_or(0, |key| key.stored().id)
    }

    /// The tenant that the call is about: the key's own, or the one that was asked for if the key
    /// is for every tenant.
    pub(crate) fn tenant<'a>(&self, asked: Option<&'a str>) -> Result<Cow<'a, str>, Problem> {
        match (self.bound_to(), asked) {
            (None, asked) => Ok(Cow::Borrowed(asked.unwrap_or(DEFAULT_TENANT))),
            (Some(own), Some(asked)) if own != asked => {
                Err(Problem::forbidden("wrong_tenant", "The key belongs to another tenant."))
            }
            (Some(own), _) => Ok(Cow::Owned(own.to_owned())),
        }
    }

    /// The tenant that a list is about; none is all of them.
    pub(crate) fn tenant_to_list<'a>(
        &self,
        asked: Option<&'a str>,
    ) -> Result<Option<Cow<'a, str>>, Problem> {
        match (self.bound_to(), asked) {
            (None, None) => Ok(None),
            (_, asked) => self.tenant(asked).map(Some),
        }
    }

    /// The one tenant that the caller may see, if it is bound to one.
    pub(crate) fn bound_to(&self) -> Option<&str> {
        self.key.as_ref()?.stored().key.tenant.as_deref()
    }

    /// For what belongs to no tenant: keys and tenants themselves.
    pub(crate) fn require_all_tenants(&self) -> Result<(), Problem> {
        match self.bound_to() {
            None => Ok(()),
            Some(_) => Err(Problem::forbidden(
                "wrong_tenant",
                "The key belongs to one tenant; this needs a key for all of them.",
            )),
        }
    }

    /// Whether the caller may also do what another scope is for.
    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.key.as_ref().is_none_or(|key| key.allows(scope))
    }

    /// Keeps idempotency keys of different callers apart.
    pub(crate) fn scope(&self) -> String {
        self.key.as_ref().map_or_else(|| "open".to_owned(), |key| key.stored().key.short.clone())
    }
}

/// The key of a caller; none where the server runs open. Whoever is nobody is refused here, before
/// anything is read from them or kept for them.
pub(crate) fn known_key(
    headers: &HeaderMap,
    keys: &Keys,
    access: Access,
) -> Result<Option<Arc<LiveKey>>, Problem> {
    let Some(token) = token(headers)? else {
        let open = match access {
            Access::Open => true,
            Access::OpenWithoutKeys => !keys.any(),
            Access::KeyNeeded => false,
        };
        if !open {
            return Err(Problem::unauthorized("Send an API key as Authorization: Bearer mtg_…"));
        }
        refuse_other_sites(headers)?;
        return Ok(None);
    };
    Ok(Some(keys.verify(token)?))
}

/// A server that runs open trusts whoever is on this machine, and that includes its browsers. A
/// page of another site must not be able to use it, be it directly or under a name that leads here.
fn refuse_other_sites(headers: &HeaderMap) -> Result<(), Problem> {
    let is_local = |authority: &str| {
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let text = |name: HeaderName| headers.get(name).map(|v| v.to_str().unwrap_or_default());
    let host_is_local = text(header::HOST).is_none_or(is_local);
    let origin_is_local = text(header::ORIGIN)
        .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, host)| is_local(host)));
    if host_is_local && origin_is_local {
        return Ok(());
    }
    let detail = "Without API keys only programs and pages of this machine may use the server.";
    Err(Problem::forbidden("cross_site", detail))
}

/// The token of `Authorization: Bearer …`.
fn token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    value
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| Some(token.trim()))
        .ok_or_else(|| Problem::unauthorized("The header must be Authorization: Bearer mtg_…"))
}

static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// `RateLimit` and `RateLimit-Policy`, as the IETF's HTTP API group drafts them.
pub(crate) fn add_rate_headers(headers: &mut HeaderMap, rate: RateState) {
    let RateState { limit, remaining, retry_after_seconds } = rate;
    // Every answer to a limited key carries these, so they are written without an allocation.
    let mut text = [0; 64];
    for (name, arguments) in [
        (&RATE_LIMIT, format_args!("\"key\";r={remaining};t={retry_after_seconds}")),
        (&RATE_LIMIT_POLICY, format_args!("\"key\";q={limit};w=1")),
    ] {
        let mut rest = &mut text[..];
        rest.write_fmt(arguments).expect("numbers of 64 bits fit");
        let end = 64 - rest.len();
        headers.insert(name, HeaderValue::from_bytes(&text[..end]).expect("visible ASCII"));
    }
}
