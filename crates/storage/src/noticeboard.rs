//! What instances tell each other beside the store: whose turn it is to be served, how far batches are,
//! how codes stand that everybody asks for.
//!
//! Every note may be lost at any moment, and may be out of date. So nothing is decided by a note: a turn
//! leads to a claim in the store, which may find nothing, and what is not noted is looked up there.

use std::time::Duration;

use async_trait::async_trait;

use crate::Result;
use crate::batch_id::BatchId;
use crate::batches::Progress;
use crate::chunks::WorkerName;
use crate::codes::{CodeKey, CodeStatus};

/// Takes turns between tenants whose batches have chunks to be done.
#[async_trait]
pub trait Dispatch {
    /// Says that tenants have chunks to be done. A tenant has one turn, however often this is said.
    async fn offer_turns(&self, tenants: &[&str]) -> Result<()>;

    /// Gives a worker the turn of the tenant that has waited longest. It is with the worker until that
    /// ends it; that of a worker that does not for long comes to another. A worker that asks has no turn:
    /// what is noted as with it never reached it, and comes to whoever is next.
    async fn take_turn(&self, worker: &WorkerName) -> Result<Option<String>>;

    /// Gives a worker the next turn, and where there is none, waits for one as long as is said. Unlike
    /// [`take_turn`](Self::take_turn) it puts back nothing that is with others, or was lost on the way.
    async fn await_turn(&self, worker: &WorkerName, wait: Duration) -> Result<Option<String>>;

    /// Ends a turn. The tenant comes behind all others, or if nothing was found for it to do, has to be
    /// offered again.
    async fn end_turn(&self, worker: &WorkerName, tenant: &str, goes_on: bool) -> Result<()>;
}

/// Shows how far batches are to those who follow them.
#[async_trait]
pub trait ProgressBoard {
    /// Notes how far a batch is, for so long.
    async fn show_progress(
        &self,
        batch: BatchId,
        progress: &Progress,
        keep: Duration,
    ) -> Result<()>;

    /// How far a batch is, if that is noted.
    async fn progress(&self, batch: BatchId) -> Result<Option<Progress>>;
}

/// A moment by the clock of the board, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoardTime(pub u64);

/// What a look at the board has shown of a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotCode {
    /// How it stands, if that is noted, and for how long that may still be believed.
    pub noted: Option<(CodeStatus, Duration)>,
    /// When this was.
    pub at: BoardTime,
}

/// Remembers for a moment how codes stand.
#[async_trait]
pub trait HotCodes {
    /// What is noted of a code.
    async fn hot_code(&self, key: &CodeKey) -> Result<HotCode>;

    /// Notes how a code stands, until a moment, unless something is noted of it or it was
    /// [spoilt](Self::spoil_hot_code). False if nobody may believe it, whoever noted it included. A note that
    /// comes too late is none.
    async fn note_hot_code(
        &self,
        key: &CodeKey,
        status: &CodeStatus,
        until: BoardTime,
    ) -> Result<bool>;

    /// Forgets what is noted of a code, and keeps others from noting anything for so long. Says for how
    /// long somebody may still believe what was noted before, at most: nothing, if nothing was.
    async fn spoil_hot_code(&self, key: &CodeKey, quiet: Duration) -> Result<Duration>;
}

/// A board that all instances see.
pub trait Noticeboard: Dispatch + ProgressBoard + HotCodes + Send + Sync {
    /// Whether the board can be seen at the moment.
    fn is_up(&self) -> bool;
}
