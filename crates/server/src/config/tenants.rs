//! `tenants`: tenants with settings of their own.

use serde::Deserialize;

/// An entry of `tenants`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantConfig {
    /// The name.
    pub(crate) name: String,
    /// For all API keys of the tenant together; none is no limit.
    #[serde(default)]
    pub(crate) requests_per_second: Option<u32>,
}
