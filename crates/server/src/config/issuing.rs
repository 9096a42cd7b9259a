//! `issuing`: how IDs are handed out.

use serde::Deserialize;

/// Settings under `issuing`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuingConfig {
    /// The most IDs in one call.
    pub(crate) count_max: u32,
    /// The smallest pool, in IDs.
    pub(crate) pool_size_min: u32,
    /// The largest pool, in IDs.
    pub(crate) pool_size_max: u32,
    /// Share of a pool that may be used up before it is refilled.
    pub(crate) watermark: f64,
    /// Pools that are refilled at the same time.
    pub(crate) refills_at_once: u32,
    /// That a request waits for an empty pool.
    pub(crate) wait_milliseconds_max: u32,
    /// Between two writes of the issue log.
    pub(crate) log_flush_milliseconds: u32,
    /// For which an idempotency key gets the same answer.
    pub(crate) idempotency_hours: u32,
}
