//! Batches: orders for many codes, done in the background in chunks.
//!
//! ```text
//!          claim                finish
//! queued ────────▶ running ──────────────▶ done
//!   ▲                │ │ fail, attempts left
//!   ├────────────────┼─┘
//!   │ retry          │ fail, or silent too often
//!   └─────────── dead ◀┘ ──────▶ abandoned        a batch that is cancelled takes its chunks with it
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idgen::spec::Ledger;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::batch_id::BatchId;
use crate::chunks::{Chunk, ClaimTerms, DeadChunk, DeadFilter, Verdict, WorkerName};
use crate::{Result, TypeId};

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchState {
    /// No chunk was begun yet.
    Queued,
    /// Some were.
    Running,
    /// All are done, or abandoned.
    Completed,
    /// Some are dead letters. The others go on.
    NeedsAttention,
    /// Somebody stopped it.
    Cancelled,
}

impl BatchState {
    /// All states.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Completed, Self::NeedsAttention, Self::Cancelled];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::NeedsAttention => "needs_attention",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing will happen any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// An order.
#[derive(Debug, Clone)]
pub struct BatchOrder {
    /// The type.
    pub type_id: TypeId,
    /// The revision of the type that the order was checked against.
    pub revision: i64,
    /// How many codes, at least one.
    pub count: u64,
    /// The first serial of the counter, and the end of what it may give out.
    pub bounds: (u64, u64),
    /// Serials of a chunk.
    pub chunk_serials: u64,
    /// How its codes are remembered. A derived batch is complete at once.
    pub ledger: Ledger,
    /// A name for people.
    pub name: Option<String>,
    /// Whatever the client wants to keep with it: JSON, as text.
    pub metadata: Option<String>,
    /// Who has ordered.
    pub key_id: i64,
    /// Whom to tell when it comes to an end: JSON, as text.
    pub notify: Option<String>,
    /// What makes a repeated order the same one, across all callers. One that is on record comes back
    /// as it is now, and nothing is drawn. With another order on record it is
    /// [refused](Ordered::OtherOrder).
    pub order_key: Option<String>,
    /// Batches of the tenant that may be under way, this one included.
    pub active_max: u64,
    /// Codes that the tenant may have ordered in all, this order included. What was cancelled or abandoned
    /// does not count.
    pub codes_max: u64,
    /// When.
    pub now: Timestamp,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub enum Ordered {
    /// It is on record.
    Done(Batch),
    /// Another order is on record under its key.
    OtherOrder,
    /// The counter cannot give so many; it has given so many so far.
    NoRoom {
        /// Serials drawn so far.
        drawn: u64,
    },
    /// The tenant has so many batches under way.
    TooManyActive {
        /// Batches under way.
        active: u64,
    },
    /// The tenant has ordered so many codes so far.
    OverQuota {
        /// Codes ordered.
        ordered: u64,
    },
}

/// That and why something is no longer genuine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Void {
    /// Since when.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its number.
    pub id: BatchId,
    /// The type.
    pub type_id: TypeId,
    /// The serials of its codes.
    pub serials: Range<u64>,
    /// Serials of a chunk.
    pub chunk_serials: u64,
    /// How its codes are remembered.
    pub ledger: Ledger,
    /// Where it stands.
    pub state: BatchState,
    /// Codes that are made.
    pub made: u64,
    /// Codes of chunks that were abandoned.
    pub abandoned: u64,
    /// Chunks that are dead letters.
    pub dead_chunks: u64,
    /// The last error of a chunk.
    pub error: Option<String>,
    /// A name for people.
    pub name: Option<String>,
    /// What the client wanted to keep with it.
    pub metadata: Option<String>,
    /// Whom to tell when it comes to an end.
    pub notify: Option<String>,
    /// Who has ordered.
    pub key_id: i64,
    /// When it was ordered.
    pub created_at: Timestamp,
    /// When the first chunk was begun.
    pub started_at: Option<Timestamp>,
    /// When it came to its final state.
    pub finished_at: Option<Timestamp>,
    /// Since when nothing but dead letters is left to do, so that it waits for somebody.
    pub idle_since: Option<Timestamp>,
    /// For how long that was so before, or nobody worked on it: between the end of one chunk and the claim
    /// on the next that was finished.
    pub idle: Duration,
    /// That its codes are void.
    pub recalled: Option<Void>,
}

impl Batch {
    /// How many codes were ordered.
    pub fn count(&self) -> u64 {
        self.serials.end - self.serials.start
    }

    /// Whether it is what an order asks for. What the service decides, such as the size of a chunk, may
    /// be another by now.
    pub fn is_of(&self, order: &BatchOrder) -> bool {
        self.type_id == order.type_id
            && self.count() == order.count
            && self.name == order.name
            && self.metadata == order.metadata
            && self.notify == order.notify
    }

    /// Codes that are left to make, apart from those of dead letters. Where the shorter last chunk is one
    /// of these, somewhat too few; never none while there are any.
    pub fn to_make(&self) -> u64 {
        let left = self.count().saturating_sub(self.made + self.abandoned);
        left.saturating_sub(self.dead_chunks * self.chunk_serials)
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            state: self.state,
            made: self.made,
            abandoned: self.abandoned,
            dead_chunks: self.dead_chunks,
            error: self.error.clone(),
            started_at: self.started_at,
            finished_at: self.finished_at,
            idle_since: self.idle_since,
            idle: self.idle,
            recalled: self.recalled.clone(),
        }
    }

    /// The same batch, so far.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        let Progress { state, made, abandoned, dead_chunks, error, .. } = progress;
        let Progress { started_at, finished_at, idle_since, idle, recalled, .. } = progress;
        Self {
            state,
            made,
            abandoned,
            dead_chunks,
            error,
            started_at,
            finished_at,
            idle_since,
            idle,
            recalled,
            ..self
        }
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> u64 {
        match self.ledger {
            Ledger::Stored => self.count().div_ceil(self.chunk_serials),
            Ledger::Derived => 0,
        }
    }

    /// The serials of a chunk.
    pub fn chunk(&self, number: u64) -> Range<u64> {
        let start = self.serials.start + number * self.chunk_serials;
        start..self.serials.end.min(start + self.chunk_serials)
    }
}

/// What changes about a batch while it is done and afterwards. The fields are those of [`Batch`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "a batch has the same fields")]
pub struct Progress {
    pub state: BatchState,
    pub made: u64,
    pub abandoned: u64,
    pub dead_chunks: u64,
    pub error: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub idle_since: Option<Timestamp>,
    pub idle: Duration,
    pub recalled: Option<Void>,
}

/// Which batches to list.
#[derive(Debug, Clone, Default)]
pub struct BatchFilter {
    /// Only of these types. None is all.
    pub types: Option<Vec<TypeId>>,
    /// Only in this state.
    pub state: Option<BatchState>,
    /// Only those that were ordered before this one.
    pub before: Option<BatchId>,
    /// At most so many.
    pub limit: usize,
}

/// Tells the time, for steps that take so long that it matters when they end.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A clock that stands still.
pub fn always(now: Timestamp) -> Now {
    Arc::new(move || now)
}

/// Wakes whoever looks for work.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Remembers batches and their chunks.
#[async_trait]
pub trait BatchStore {
    /// Has this called, from now on, when another instance has taken an order for a stored batch. It
    /// may be called without a reason.
    fn on_order(&self, wake: Wake);

    /// Whether orders of other instances are heard of. While they are not, somebody has to look.
    fn hears_of_orders(&self) -> bool;

    /// Draws the serials and takes the order on record, in one step. Marks the type as used.
    /// [`StoreError::Stale`](crate::StoreError) if the type has another revision,
    /// [`StoreError::NotFound`](crate::StoreError) if it is not there or retired. A
    /// [stored](Ledger::Stored) batch is queued with its chunks, a [derived](Ledger::Derived) one is
    /// complete.
    async fn order_batch(&self, order: &BatchOrder) -> Result<Ordered>;

    /// A batch.
    async fn batch(&self, id: BatchId) -> Result<Option<Batch>>;

    /// Batches, the latest first.
    async fn batches(&self, filter: &BatchFilter) -> Result<Vec<Batch>>;

    /// Takes a chunk that waits and whose time has come, or whose worker was silent for too long: one of
    /// this tenant, or else of the tenant that was served least recently; then of its oldest batch, then the
    /// lowest. The batch is running from the first claim on. A chunk that was silent too often becomes a dead
    /// letter on the way. A worker that asks has nothing under way: a chunk that is on record as running with
    /// it is one whose claim never reached it, and comes first, whosever it is, with a new token and as the
    /// same attempt.
    async fn claim_chunk(
        &self,
        worker: &WorkerName,
        tenant: Option<&str>,
        terms: ClaimTerms,
    ) -> Result<Option<Chunk>>;

    /// Writes the rows of a chunk and notes that it is done, in one step. The last one completes the
    /// batch. False if the claim is not in force any more; then nothing has changed. It is done when its
    /// rows are written.
    async fn finish_chunk(&self, chunk: &Chunk, now: Now) -> Result<bool>;

    /// Notes that a chunk failed. It waits until `retry_at`, or is a dead letter. False if the claim
    /// is not in force any more.
    async fn fail_chunk(
        &self,
        chunk: &Chunk,
        error: &str,
        retry_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool>;

    /// Gives back the chunks that instances which are gone had claimed, so that others can have them
    /// at once, and says how many these were. A store with one instance takes every other one than `instance` to be gone; elsewhere those are
    /// gone that have no lease, or one that has run out.
    async fn release_lost_chunks(&self, instance: &str) -> Result<u64>;

    /// The serials of a batch that are made, in order and as few ranges as possible.
    async fn made(&self, id: BatchId) -> Result<Vec<Range<u64>>>;

    /// Stops a batch. Claims on its chunks are void, and the serials that were not made become gaps
    /// with reason `batch_cancelled`. With a `void_reason` the codes that were made are void from the
    /// same moment on, as by a recall; also those of a batch that was cancelled before. Returns it as it
    /// is now; a complete one stays as it is.
    async fn cancel_batch(
        &self,
        id: BatchId,
        void_reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Batch>>;

    /// Makes every code of a batch void. Returns it as it is now; the first recall stays.
    async fn recall_batch(
        &self,
        id: BatchId,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<Batch>>;

    /// Dead letters in order of batch and chunk.
    async fn dead_chunks(&self, filter: &DeadFilter) -> Result<Vec<DeadChunk>>;

    /// Decides about chunks that are dead letters, and says how many of them still were. Their batches go
    /// on, or are complete when nothing is left to do. Those of one shard are one step. What is given up does
    /// not count as ordered any more.
    async fn settle_chunks(
        &self,
        chunks: &[(BatchId, u64)],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<u64>;
}
