//! `postgres`, `redis` and `cluster`: many instances on shared servers.

use std::path::PathBuf;

use serde::Deserialize;

use super::secret::SecretText;

/// Settings under `postgres`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostgresConfig {
    /// The catalogue and first shard; none is the embedded store.
    pub(crate) url: Option<SecretText>,
    /// A streaming replica of it.
    pub(crate) replica: Option<SecretText>,
    /// Further shards.
    pub(crate) shards: Vec<ShardConfig>,
    /// Connections to each database.
    pub(crate) connections_max: u32,
    /// How long a step may take.
    pub(crate) timeout_milliseconds: u32,
    /// Off behind a pooler that hands out servers by transaction.
    pub(crate) prepared_statements: bool,
    /// Certificates to trust in place of the system's.
    pub(crate) ca_file: Option<PathBuf>,
}

/// An entry of `postgres.shards`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShardConfig {
    /// The database.
    pub(crate) url: SecretText,
    /// A streaming replica of it.
    #[serde(default)]
    pub(crate) replica: Option<SecretText>,
}

/// Settings under `redis`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisConfig {
    /// The server; none is to do without.
    pub(crate) url: Option<SecretText>,
    /// How long an answer may take.
    pub(crate) timeout_milliseconds: u32,
    /// How long a lock outlives its owner.
    pub(crate) lock_seconds: u32,
    /// Certificates to trust in place of the system's.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Settings under `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterConfig {
    /// How long an instance may be silent before others take it for gone.
    pub(crate) lease_seconds: u32,
    /// How often shared pools are looked at.
    pub(crate) pool_check_seconds: u32,
}
