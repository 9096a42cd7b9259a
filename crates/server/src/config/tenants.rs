//! `tenants`: tenants with settings of their own.

use serde::Deserialize;
use storage::TenantLimits;

/// An entry of `tenants`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantConfig {
    /// The name.
    pub(crate) name: String,
    /// For all API keys of the tenant together; none is no limit.
    #[serde(default)]
    pub(crate) requests_per_second: Option<u32>,
    /// In the place of `batches.active_per_tenant_max`.
    #[serde(default)]
    pub(crate) active_batches_max: Option<u32>,
    /// In the place of `batches.codes_per_tenant_max`.
    #[serde(default)]
    pub(crate) codes_max: Option<u64>,
}

impl TenantConfig {
    pub(crate) fn limits(&self) -> TenantLimits {
        let Self { requests_per_second, active_batches_max, codes_max, .. } = *self;
        TenantLimits { requests_per_second, active_batches_max, codes_max }
    }
}
