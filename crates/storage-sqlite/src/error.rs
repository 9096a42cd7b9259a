//! What can go wrong with the file, in the words of the storage traits.

use std::io;
use std::path::PathBuf;

use rusqlite::{Error, ErrorCode};
use storage::StoreError;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another store in this one, has it open.
    #[error("the data directory {} is in use by another mintage process", .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// It does not exist and cannot be made, or nothing can be written in it.
    #[error("the data directory {} cannot be written: {source}", .directory.display())]
    NotWritable {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A newer release has written to it. There is no way back.
    #[error(
        "{} was written by a newer release of mintage (schema version {found}, this one knows up \
         to {known}); use that release or a newer one",
        .file.display()
    )]
    NewerSchema {
        /// The database file.
        file: PathBuf,
        /// The version of the file.
        found: i64,
        /// The latest version that this release knows.
        known: i64,
    },
    /// The file is there and is something else.
    #[error("{} is not a mintage database", .file.display())]
    NotADatabase {
        /// The file.
        file: PathBuf,
    },
    /// Anything else.
    #[error("{} cannot be opened: {source}", .file.display())]
    Database {
        /// The database file.
        file: PathBuf,
        /// What the driver says.
        source: Error,
    },
}

/// Says what an error of the driver means for a step.
///
/// The steps check all that a caller can get wrong beforehand, so whatever is left is either the
/// machine, which may recover, or a file that does not hold what it should.
pub(crate) fn from_sqlite(error: &Error) -> StoreError {
    let Error::SqliteFailure(failure, _) = error else {
        return StoreError::Corrupt(error.to_string());
    };
    let plain = match failure.code {
        ErrorCode::DiskFull => "the disk is full",
        ErrorCode::SystemIoFailure => "the disk reports an error",
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => "the database cannot be written",
        ErrorCode::CannotOpen => "the database file cannot be opened",
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => "another process holds the database",
        ErrorCode::OutOfMemory => "there is no memory left",
        ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => "it was interrupted",
        _ => return StoreError::Corrupt(error.to_string()),
    };
    StoreError::Unavailable(format!("{plain} (SQLite error {})", failure.extended_code))
}

/// Why a step or a read has failed: an error of the driver, or a refusal of our own.
#[derive(Debug)]
pub(crate) struct StepError(pub(crate) StoreError);

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self(from_sqlite(&error))
    }
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

/// The result of a step.
pub(crate) type StepResult<T> = Result<T, StepError>;

/// Something that was read and makes no sense.
pub(crate) fn corrupt(what: impl Into<String>) -> StepError {
    StepError(StoreError::Corrupt(what.into()))
}
