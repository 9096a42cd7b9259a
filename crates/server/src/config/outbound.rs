//! `outbound`: where the server sends what clients want delivered.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings under `outbound`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutboundConfig {
    /// Whether receivers may be on this machine and its network.
    pub(crate) private_addresses: bool,
    /// Certificates of authorities.
    pub(crate) tls_root_file: Option<PathBuf>,
    /// What the directories of sinks are in.
    pub(crate) directory: Option<PathBuf>,
}
