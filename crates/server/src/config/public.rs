//! `public`: what anybody may ask without an API key.

use std::net::IpAddr;

use idgen::spec::{DEFAULT_TENANT, valid_name};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, de};

/// Settings under `public`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublicConfig {
    /// Whose codes can be verified; nobody's where it is empty.
    pub(crate) types: Vec<PublicType>,
    /// Verdicts for one address.
    pub(crate) scans_per_minute: u32,
    /// Verdicts for the network around it.
    pub(crate) scans_per_minute_of_network: u32,
    /// When an unknown code is answered.
    pub(crate) miss_milliseconds: u32,
    /// Who is believed when it says for whom it asks.
    pub(crate) trusted_proxies: Vec<Proxy>,
}

/// An entry of `types`. None stands for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicType {
    tenant: Option<String>,
    name: Option<String>,
}

impl PublicType {
    /// Whether an ID type is meant.
    pub(crate) fn includes(&self, tenant: &str, name: &str) -> bool {
        let fits = |pattern: &Option<String>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern == text)
        };
        fits(&self.tenant, tenant) && fits(&self.name, name)
    }
}

impl<'de> Deserialize<'de> for PublicType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (tenant, name) = text.split_once('/').unwrap_or((DEFAULT_TENANT, &text));
        let part = |text: &str| match text {
            "*" => Some(None),
            name => valid_name("name", name).is_ok().then(|| Some(name.to_owned())),
        };
        match (part(tenant), part(name)) {
            // All types of that name, whoever they belong to, is nothing that anybody means.
            (Some(None), Some(Some(_))) | (None, _) | (_, None) => {
                Err(de::Error::custom(format_args!(
                    "{text:?} does not name ID types; use one such as bottle, PROJ/bottle, \
                     \"PROJ/*\" or \"*/*\""
                )))
            }
            (Some(tenant), Some(name)) => Ok(Self { tenant, name }),
        }
    }
}

/// An entry of `trusted_proxies`: an address or a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proxy(pub(crate) IpNet);

impl<'de> Deserialize<'de> for Proxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let network = text.trim().parse::<IpNet>().ok();
        let alone = || text.trim().parse::<IpAddr>().ok().map(IpNet::from);
        network.or_else(alone).map(Self).ok_or_else(|| {
            de::Error::custom(format_args!(
                "{text:?} is not an address or a network; use one such as 10.0.0.7, 10.0.0.0/8 \
                 or fd00::/8"
            ))
        })
    }
}
