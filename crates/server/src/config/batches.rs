//! `batches`: codes that are made in the background.

use serde::Deserialize;

/// Settings under `batches`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchesConfig {
    /// Chunks at the same time.
    pub(crate) workers: u32,
    /// The most codes in one batch.
    pub(crate) count_max: u64,
    /// Codes of a chunk, where that is not left to the store.
    pub(crate) chunk_codes: Option<u32>,
    /// Batches of one tenant that may be under way.
    pub(crate) active_per_tenant_max: u32,
    /// Codes that one tenant may order in all.
    pub(crate) codes_per_tenant_max: Option<u64>,
    /// Silence after which a chunk is given to another worker.
    pub(crate) silent_seconds: u32,
    /// How often a chunk is tried again.
    pub(crate) retries: u32,
    /// The wait before the first time.
    pub(crate) retry_milliseconds: u32,
}
