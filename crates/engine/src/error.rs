//! Why the engine did not do what it was asked to.

use idgen::error::{RenderError, SpecErrors};
use idgen::snowflake::SnowflakeError;
use storage::StoreError;

/// Why no IDs were issued. In every case none left the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    /// The tenant has no such type.
    #[error("there is no ID type {name:?} for tenant {tenant:?}")]
    UnknownType {
        /// The tenant.
        tenant: String,
        /// The name that was asked for.
        name: String,
    },
    /// The type was deleted.
    #[error("the ID type was retired and issues no more IDs")]
    Retired,
    /// The numbers of this type belong to documents.
    #[error("a gapless type gives its numbers to documents only")]
    Gapless,
    /// The IDs of this type are not numbers of a counter.
    #[error("documents need a sequence or a random ID type")]
    NoCounter,
    /// Fewer are left than were asked for.
    #[error("the ID type is exhausted: {left} IDs are left")]
    Exhausted {
        /// How many a smaller request could still get.
        left: u64,
    },
    /// The count is outside the limits.
    #[error("count must be from 1 to {max}, not {count}")]
    Count {
        /// What was asked for.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// The type is being changed; it can be looked up again in a moment.
    #[error("the ID type is being changed")]
    Closed,
    /// The pool could not be refilled in time.
    #[error("the pool is empty and is being refilled")]
    PoolEmpty,
    /// The store does not answer, or the clock is wrong. Worth trying again.
    #[error("{0}")]
    Unavailable(String),
    /// The template cannot write today's date.
    #[error(transparent)]
    Date(#[from] RenderError),
    /// No snowflake can be made.
    #[error(transparent)]
    Snowflake(#[from] SnowflakeError),
}

impl From<StoreError> for IssueError {
    fn from(error: StoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<AdminError> for IssueError {
    fn from(error: AdminError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Why a type, a tenant or a key was not changed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// It does not exist.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The settings are wrong.
    #[error("{0}")]
    Invalid(#[from] SpecErrors),
    /// The change would make IDs unreadable or repeat them.
    #[error(
        "IDs of this type have been issued, so these settings are fixed: {}; \
         create a type with another name instead",
        .0.join(", ")
    )]
    Frozen(Vec<&'static str>),
    /// A key of the configuration exists with other settings.
    #[error("the API key {0} exists with other settings; revoke it and configure a new one")]
    KeyDiffers(String),
    /// It cannot be deleted.
    #[error(
        "it is still in use: a tenant by ID types, webhooks or sinks, and a sink by documents that \
         have not arrived"
    )]
    InUse,
    /// The master key is not the one that the type's key was sealed with.
    #[error("the key of ID type {0} cannot be opened: the master key is not the right one")]
    MasterKey(String),
    /// It will not be done, and why.
    #[error("{0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for AdminError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => Self::NotFound(what),
            StoreError::InUse => Self::InUse,
            other => Self::Store(other),
        }
    }
}
