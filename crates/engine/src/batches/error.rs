//! Why an order was not taken.

use storage::BatchState;

use crate::error::IssueError;

/// Why a batch was not ordered, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// There is no such type, or the store does not answer.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// There is no such batch, or it is another tenant's.
    #[error("there is no such batch")]
    NotFound,
    /// Only codes can be made in batches.
    #[error("{0}")]
    NotACodeType(&'static str),
    /// The count is outside the limits.
    #[error("count must be from 1 to {max}, not {count}")]
    Count {
        /// What was asked for.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// The space does not have so many.
    #[error("{count} codes do not fit: {left} of {space} are left")]
    NoRoom {
        /// What was asked for.
        count: u64,
        /// What a smaller order could get.
        left: u64,
        /// All that there are.
        space: u64,
    },
    /// Too many of the possible codes would be real ones.
    #[error(
        "{count} more codes would make more than 1 in 10,000 of the {space} possible codes real, \
         so that they could be guessed; {left} more are allowed, or set allow_dense on the ID type"
    )]
    TooDense {
        /// What was asked for.
        count: u64,
        /// What a smaller order could get.
        left: u64,
        /// All codes that are possible.
        space: u128,
    },
    /// The tenant has enough to do.
    #[error("the tenant has {active} batches under way, and may have {max}")]
    TooManyActive {
        /// Batches under way.
        active: u64,
        /// The limit.
        max: u64,
    },
    /// The tenant has ordered enough.
    #[error(
        "the tenant has ordered {ordered} codes; {count} more would be over its limit of {max}"
    )]
    OverQuota {
        /// What was asked for.
        count: u64,
        /// Codes ordered.
        ordered: u64,
        /// The limit.
        max: u64,
    },
    /// The key of the order is that of another one.
    #[error("this idempotency key was used for another order")]
    OtherOrder,
    /// It is too late to stop it.
    #[error("the batch is {} and cannot be cancelled; its codes can be recalled", .0.name())]
    Ended(BatchState),
}
