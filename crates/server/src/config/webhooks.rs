//! `webhooks`: telling others what happened.

use serde::Deserialize;

/// Settings under `webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhooksConfig {
    /// Longest time of one attempt.
    pub(crate) timeout_seconds: u32,
    /// Attempts at one webhook at the same time.
    pub(crate) at_once: u32,
    /// How often a delivery is tried again.
    pub(crate) retries: u32,
    /// The wait before the first time.
    pub(crate) retry_seconds: u32,
    /// How long what was delivered stays on record.
    pub(crate) keep_days: u32,
}
