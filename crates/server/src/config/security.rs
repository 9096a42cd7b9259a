//! `security`: who may do what, and the key that protects the other keys.

use std::path::PathBuf;

use serde::Deserialize;

use super::secret::MasterKey;
use super::store::StoreConfig;

/// Settings under `security`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecurityConfig {
    /// Whether callers must show a key.
    pub(crate) authentication: Authentication,
    /// The key itself, where it is not in a file.
    pub(crate) master_key: Option<MasterKey>,
    /// The file with the key; see [`master_key_path`](Self::master_key_path).
    pub(crate) master_key_file: Option<PathBuf>,
    /// Limit of an API key that has none of its own.
    pub(crate) requests_per_second: Option<u32>,
}

/// Whether callers must show an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Authentication {
    /// Only beyond loopback, or once there is a key.
    Auto,
    /// Always.
    Required,
    /// Never.
    Off,
}

impl SecurityConfig {
    /// Where the master key is read from if it is not given directly.
    pub(crate) fn master_key_path(&self, store: &StoreConfig) -> PathBuf {
        self.master_key_file.clone().unwrap_or_else(|| store.directory.join("master.key"))
    }
}
