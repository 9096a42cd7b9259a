//! `codes`: what happens to codes after they were made.

use serde::Deserialize;

/// Settings under `codes`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodesConfig {
    /// For how long what comes along with scans is kept.
    pub(crate) context_days: u32,
}
