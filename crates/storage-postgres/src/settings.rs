//! What a store has to be told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::address;

/// Most databases that a cluster can have: the number of a type says its shard in eight bits.
pub const SHARDS_MAX: usize = 256;

/// One database, and a copy of it that can be read.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardSettings {
    /// `postgres://user:password@host:port/database`, with several hosts where one takes over from
    /// another. `sslmode` in it is
    ///
    /// - `disable`: never encrypted,
    /// - `prefer`, the default: encrypted if the server can, whoever it is,
    /// - `require` or `verify-full`: encrypted, with a certificate that is valid for the host.
    pub url: String,
    /// Where a streaming replica of it answers, in the same form.
    pub replica: Option<String>,
}

/// Passwords stay out of logs.
impl fmt::Debug for ShardSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardSettings")
            .field("url", &address::shown(&self.url))
            .field("replica", &self.replica.as_deref().map(address::shown))
            .finish()
    }
}

/// What a store has to be told.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// The catalogue, which is the first shard, too. See [`ShardSettings::url`].
    pub url: String,
    /// A streaming replica of the catalogue.
    pub replica: Option<String>,
    /// Further shards. Their order is for ever; more can be added at the end.
    pub shards: Vec<ShardSettings>,
    /// Connections to each database, at least two.
    pub connections_max: usize,
    /// How long a step may wait for a connection.
    pub wait_timeout: Duration,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a step may take altogether, waiting and repeating included.
    pub step_timeout: Duration,
    /// How long filling a pool, closing lost draws and changing the schema may take.
    pub work_timeout: Duration,
    /// Whether statements are prepared once on each connection. It has to be off where connections
    /// lead through a pooler that hands out servers by transaction. Timeouts are then kept on this
    /// side only, and `synchronous_commit` has to be on by itself.
    pub prepared_statements: bool,
    /// How the connections present themselves.
    pub application_name: String,
    /// Certificates of the authorities to trust, in PEM. The system's own if there is none.
    pub tls_root_file: Option<PathBuf>,
}

impl PostgresSettings {
    /// One database, and everything else as it usually is.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            replica: None,
            shards: Vec::new(),
            connections_max: 16,
            wait_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            step_timeout: Duration::from_secs(2),
            work_timeout: Duration::from_secs(30),
            prepared_statements: true,
            application_name: "mintage".to_owned(),
            tls_root_file: None,
        }
    }

    /// Every database, the catalogue first.
    pub(crate) fn databases(&self) -> Vec<ShardSettings> {
        let catalogue = ShardSettings { url: self.url.clone(), replica: self.replica.clone() };
        std::iter::once(catalogue).chain(self.shards.iter().cloned()).collect()
    }
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSettings")
            .field("databases", &self.databases())
            .field("connections_max", &self.connections_max)
            .field("prepared_statements", &self.prepared_statements)
            .finish_non_exhaustive()
    }
}
