//! `documents`: IDs with payloads, and their delivery.

use serde::Deserialize;

/// Settings under `documents`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentsConfig {
    /// The largest body of a request with documents.
    pub(crate) body_bytes_max: u32,
    /// The largest payload.
    pub(crate) payload_bytes_max: u32,
    /// The most documents of one call.
    pub(crate) count_max: u32,
    /// Longest time of one attempt at a delivery.
    pub(crate) timeout_seconds: u32,
    /// Deliveries to one sink that an instance has under way.
    pub(crate) at_once: u32,
    /// How often a delivery is tried again.
    pub(crate) retries: u32,
    /// The wait before the first time.
    pub(crate) retry_seconds: u32,
    /// How long an ID is held that somebody has reserved.
    pub(crate) reservation_seconds: u32,
    /// How often serials are looked for that nothing explains.
    pub(crate) reconcile_seconds: u32,
}
