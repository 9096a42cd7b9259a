//! `store`: where Mintage remembers what it must not forget.

use std::path::PathBuf;

use serde::Deserialize;

/// Settings under `store`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreConfig {
    /// Of the embedded database.
    pub(crate) directory: PathBuf,
}
