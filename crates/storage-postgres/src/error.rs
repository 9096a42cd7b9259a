//! What can go wrong with a database, in the words of the storage traits.

use deadpool_postgres::{HookError, PoolError};
use storage::StoreError;
use tokio_postgres::error::SqlState;

use crate::address::cause;

/// Why the databases could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A URL cannot be used.
    #[error("the PostgreSQL URL for {address} cannot be used: {what}")]
    Address {
        /// The URL without user and password.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// The settings contradict each other or themselves.
    #[error("the PostgreSQL settings cannot be used: {0}")]
    Settings(String),
    /// Encrypted connections cannot be made.
    #[error("connections to PostgreSQL at {address} cannot be encrypted: {what}")]
    Tls {
        /// Where.
        address: String,
        /// Why not.
        what: String,
    },
    /// There is no answer, or not in time. Worth trying again.
    #[error("PostgreSQL at {address} cannot be reached: {what}")]
    Unreachable {
        /// Where.
        address: String,
        /// Why not.
        what: String,
    },
    /// Others were in the way. Worth trying again.
    #[error("others are in the way in PostgreSQL at {address}: {what}")]
    Collision {
        /// Where.
        address: String,
        /// What the server says.
        what: String,
    },
    /// The role may not do what is needed.
    #[error(
        "the role for PostgreSQL at {address} lacks a right: {what}; it needs to create tables \
         and functions in its schema (GRANT CREATE, USAGE ON SCHEMA public TO …)"
    )]
    Forbidden {
        /// Where.
        address: String,
        /// What the server says.
        what: String,
    },
    /// The server is too old.
    #[error("PostgreSQL at {address} has version {found}; 15 or later is needed")]
    OldServer {
        /// Where.
        address: String,
        /// Its version.
        found: String,
    },
    /// A newer release has changed the schema in a way that this one does not know.
    #[error(
        "the database {address} was changed by a newer release of mintage ({series} schema \
         {found}, this one knows up to {known}); use that release or a newer one"
    )]
    NewerSchema {
        /// Where.
        address: String,
        /// Which part of the schema.
        series: &'static str,
        /// The version that was found.
        found: i32,
        /// The latest version that this release knows.
        known: i32,
    },
    /// The database is part of another cluster.
    #[error("the database {address} belongs to another cluster than the catalogue")]
    OtherCluster {
        /// Where.
        address: String,
    },
    /// The databases are not in the order in which they were first used.
    #[error(
        "the database {address} is configured as shard {configured}, but it is shard {found}; \
         shards keep their order for ever, and new ones are added at the end"
    )]
    OtherShard {
        /// Where.
        address: String,
        /// Its place in the settings.
        configured: u8,
        /// Its place in truth.
        found: u8,
    },
    /// Fewer shards are configured than hold data.
    #[error("the settings name {configured} databases, but tenants were placed on {needed}")]
    MissingShards {
        /// Databases in the settings, the catalogue included.
        configured: usize,
        /// Databases that are in use.
        needed: usize,
    },
    /// Connections lead through a pooler, and the settings do not say so.
    #[error(
        "connections to {address} lead through a pooler in transaction mode, which gives every \
         transaction another session: set prepared_statements to false"
    )]
    Pooler {
        /// Where.
        address: String,
    },
    /// A commit would return before it is safe, and cannot be made to wait.
    #[error(
        "synchronous_commit is {found} at {address}, so a commit could be lost after it was \
         answered, and through a pooler it cannot be changed from here: set it to on for the \
         role (ALTER ROLE … SET synchronous_commit = on)"
    )]
    WeakCommit {
        /// Where.
        address: String,
        /// The level that was found.
        found: String,
    },
    /// Anything else.
    #[error("the database {address} cannot be opened: {what}")]
    Database {
        /// Where.
        address: String,
        /// What the server or the driver says.
        what: String,
    },
}

impl OpenError {
    /// What an error of the driver means for opening a database.
    pub(crate) fn from_database(address: &str, error: &tokio_postgres::Error) -> Self {
        let (address, what) = (address.to_owned(), describe(error));
        match Failure::of(error) {
            Failure::Connection | Failure::NotSent | Failure::Overloaded => {
                Self::Unreachable { address, what }
            }
            Failure::RolledBack => Self::Collision { address, what },
            Failure::Statement if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                Self::Forbidden { address, what }
            }
            Failure::Statement => Self::Database { address, what },
        }
    }
}

/// What kind of failure an error is, for whoever may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server rolled it back because of others, or refused it because it may not write now.
    RolledBack,
    /// The server is not there, and the statement never was there either.
    NotSent,
    /// The connection broke. Whether the statement was done is not known.
    Connection,
    /// The server took too long, or has no room. It was not done.
    Overloaded,
    /// The statement is at fault, or the data.
    Statement,
}

impl Failure {
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            return Self::Connection;
        };
        if [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(code)
        {
            return Self::RolledBack;
        }
        match code.code() {
            // Shutting down, crashed, or starting.
            "57P01" | "57P02" | "57P03" | "57P05" => Self::Connection,
            // Timeouts of statements and locks, and a query that somebody has cancelled.
            "57014" | "55P03" => Self::Overloaded,
            other => match &other[..2] {
                "08" => Self::Connection,
                // Too many connections, a full disk, no memory; and errors of the system.
                "53" | "58" => Self::Overloaded,
                _ => Self::Statement,
            },
        }
    }
}

/// Says what an error means for a step. The steps check all that a caller can get wrong, so
/// whatever else the server refuses is a mistake of ours or a database that was tampered with.
pub(crate) fn from_database(error: &tokio_postgres::Error) -> StoreError {
    if error.code().is_some_and(|code| code.code() == STALE) {
        return StoreError::Stale;
    }
    if error.code().is_some_and(|code| code.code() == NO_SUCH_TYPE) {
        return StoreError::NotFound("type");
    }
    let constraint = error.as_db_error().and_then(|error| error.constraint());
    if constraint.is_some_and(|name| DOCUMENT_KEYS.contains(&name)) {
        return StoreError::Exists("document");
    }
    match Failure::of(error) {
        Failure::Statement => StoreError::Corrupt(describe(error)),
        _ => StoreError::Unavailable(describe(error)),
    }
}

/// What the functions in the database raise. As in the migrations.
pub(crate) const STALE: &str = "MT409";
pub(crate) const NO_SUCH_TYPE: &str = "MT404";

/// What makes a document known. Two steps that bring the same one at once both find none on record.
const DOCUMENT_KEYS: [&str; 2] = ["documents_by_reference", "documents_by_request_key"];

/// What happened, with the server's code where there is one.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            let hint = match error.code().code() {
                // No such prepared statement, and one that is there already.
                "26000" | "42P05" => {
                    "; connections lead through a pooler: set prepared_statements to false"
                }
                _ => "",
            };
            format!("{} (PostgreSQL error {}){hint}", error.message(), error.code().code())
        }
        None => cause(error),
    }
}

/// What it means that there is no connection to be had: the caller may count on it that nothing was done.
pub(crate) fn from_pool(error: &PoolError) -> StoreError {
    StoreError::NoConnection(pool_trouble(error))
}

/// Why there is no connection to be had.
pub(crate) fn pool_trouble(error: &PoolError) -> String {
    match error {
        PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => {
            "all connections to PostgreSQL are in use".to_owned()
        }
        PoolError::Timeout(_) => "PostgreSQL does not answer".to_owned(),
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            describe(error)
        }
        PoolError::Closed => "it was closed".to_owned(),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => error.to_string(),
    }
}

/// An error of a step of which a part may have been done before. That there is no connection then does not
/// mean that the store has never heard of the step.
pub(crate) fn heard_of(error: StoreError) -> StoreError {
    match error {
        StoreError::NoConnection(what) => StoreError::Unavailable(what),
        other => other,
    }
}

/// Something that was read and makes no sense.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::Corrupt(what.into())
}
