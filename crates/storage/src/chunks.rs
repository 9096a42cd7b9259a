//! Chunks: the parts of a batch that workers do.

use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;

use crate::TypeId;
use crate::batch_id::BatchId;

/// A chunk that a worker has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The batch.
    pub batch: BatchId,
    /// The type.
    pub type_id: TypeId,
    /// Which one of the batch, from 0.
    pub number: u64,
    /// Its serials.
    pub serials: Range<u64>,
    /// The position of its first code in the batch.
    pub position: u64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Grows with every claim. A claim with an old token can change nothing any more.
    pub token: i64,
}

/// A worker: it does one chunk at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerName {
    /// The instance that it belongs to.
    pub instance: String,
    /// Which one of the instance, from 0.
    pub number: u32,
}

/// Terms of a claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimTerms {
    /// A chunk whose worker has been silent for so long is given to another.
    pub silent: Duration,
    /// A chunk that was claimed so often and is silent is a dead letter.
    pub attempts_max: u32,
    /// When.
    pub now: Timestamp,
}

/// A chunk that automatic retries gave up on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadChunk {
    /// The batch.
    pub batch: BatchId,
    /// The type.
    pub type_id: TypeId,
    /// Which one of the batch, from 0.
    pub number: u64,
    /// Its serials.
    pub serials: Range<u64>,
    /// How often it was tried.
    pub attempts: u32,
    /// The last error.
    pub error: String,
    /// Since when it is a dead letter.
    pub died_at: Timestamp,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// Only of these types. None is all.
    pub types: Option<Vec<TypeId>>,
    /// Only of this batch.
    pub batch: Option<BatchId>,
    /// Only this chunk of the batch.
    pub chunk: Option<u64>,
    /// Only those behind this one, in order of batch and chunk.
    pub after: Option<(BatchId, u64)>,
    /// At most so many.
    pub limit: usize,
}

/// What to do with a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again, with all attempts.
    Retry,
    /// Give it up. Its serials become a gap with reason `abandoned`.
    Abandon,
}
