//! What can go wrong in a store.

/// The result of a step.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a step was not taken. In every case nothing of it was taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or cannot write: down, cut off, disk full. Worth trying again.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// There was no connection to be had, so the store never heard of the step. Worth trying again.
    #[error("the store is unavailable: {0}")]
    NoConnection(String),
    /// What the step was about does not exist (any more).
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// Something with this name exists already.
    #[error("this {0} exists already")]
    Exists(&'static str),
    /// The tenant still has ID types.
    #[error("it is still in use")]
    InUse,
    /// What the step was about was changed meanwhile; the caller has to read it again.
    #[error("it was changed meanwhile")]
    Stale,
    /// What was read makes no sense. A person has to look.
    #[error("the store holds something unreadable: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Whether the same step may succeed later.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::NoConnection(_))
    }
}
