//! What can go wrong, in words that never hold a password.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use redis::{RedisError, ServerError};
use storage::StoreError;

/// Why settings cannot be used. None of these goes away by waiting.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The URL begins with something else than the forms on the front page.
    #[error(
        "the Redis URL must begin with redis://, rediss://, unix://, redis+sentinel:// or \
         redis+cluster:// (rediss+… for TLS)"
    )]
    Scheme,
    /// The rest of the URL cannot be read.
    #[error("the Redis URL cannot be used: {0}")]
    Url(&'static str),
    /// The certificates cannot be read.
    #[error("the certificates in {} cannot be used: {why}", .file.display())]
    CaFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The system has no certificates to trust.
    #[error("the system has no certificates for TLS; name a file with those to trust")]
    NoCertificates,
    /// The TLS library refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The namespace would break the keys' hash tags.
    #[error("the namespace of the Redis keys must be letters, digits, `-`, `_`, `.` or `:`")]
    Namespace,
    /// A time of zero, or one that makes no sense beside another.
    #[error("{0}")]
    Times(&'static str),
}

/// Why a step over a connection failed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("there is no connection to Redis that can be trusted")]
    Open,
    #[error("Redis has not answered within {} ms", .0.as_millis())]
    Late(Duration),
    #[error("Redis refuses: {} {}", .0.code(), .0.details().unwrap_or_default())]
    Refused(ServerError),
    #[error("the connection to Redis failed: {0}")]
    Wire(#[from] RedisError),
    #[error("Redis cannot be reached: {0}")]
    Reach(String),
    #[error("Redis has answered with something else than {0}")]
    Unexpected(&'static str),
    #[error("{0}")]
    Identity(&'static str),
    #[error("the database cannot confirm the pool epoch: {0}")]
    Epoch(String),
}

impl Trouble {
    /// Whether the server only has no memory left for more. What is in the pools can still leave
    /// them.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code() == "OOM")
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Reach(error.to_string())
    }
}

/// To whoever uses the pools it is all the same: draw from the database meanwhile.
impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        Self::Unavailable(trouble.to_string())
    }
}
