//! Why a document has no number.

use storage::StoreError;

use crate::error::IssueError;

/// Why documents were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// There is no such type, or the store does not answer.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// Nobody would get them.
    #[error(
        "the tenant has no sink for documents of this type; make one with PUT /api/v1/sinks/{{name}}"
    )]
    NoSink,
    /// The client's name for a document belongs to another one.
    #[error(
        "document {place} has a client_reference or an idempotency key that belongs to {id}, which has another payload"
    )]
    Conflict {
        /// Which document of the request, from 0.
        place: usize,
        /// The ID of the other one.
        id: String,
    },
    /// There is no such document or reservation, or it is another tenant's.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// It would leave a gap where none may be.
    #[error("a gapless type has no reservations: one that is given up would leave a gap")]
    Gapless,
    /// The number is not held any more.
    #[error("the reservation is {0}")]
    NotHeld(&'static str),
}

impl From<StoreError> for DocumentError {
    fn from(error: StoreError) -> Self {
        Self::Issue(error.into())
    }
}
