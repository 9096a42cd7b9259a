//! Counters: the one thing that makes IDs unique.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Gap, GapReason, Result, TypeId};

/// Serials of one counter. A type that starts again has a counter for every period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The type.
    pub type_id: TypeId,
    /// The counter within the type: `2026`, `2026-11`, or nothing.
    pub period: String,
    /// The serials.
    pub serials: Range<u64>,
}

/// An order for serials.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a> {
    /// The type.
    pub type_id: TypeId,
    /// The counter within the type.
    pub period: &'a str,
    /// How many serials are wanted, at least one.
    pub count: u64,
    /// The serials that the counter may give out: from the type's start to the end of its space.
    pub bounds: (u64, u64),
    /// Who will hold the serials: an instance, or a pool that instances share.
    pub holder: &'a str,
    /// The revision of the type that the serials will be rendered by.
    pub revision: i64,
    /// When.
    pub now: Timestamp,
}

/// What became of serials that were given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenBack {
    /// They were the counter's tail; the counter stands where they begin.
    ToCounter,
    /// Others were drawn since. They are a gap.
    Gap,
}

/// What was found of those that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// Instances whose lease had run out. Each is reported once, to one instance.
    pub gone: Vec<String>,
    /// What they had drawn and not accounted for.
    pub gaps: Vec<Gap>,
}

/// Remembers how far each counter has been drawn, and who holds what is not accounted for.
#[async_trait]
pub trait CounterStore {
    /// Takes the next serials of a counter, durably, before it returns. The first draw starts
    /// the counter. Fewer serials than wanted come back at the end of the space, and an empty range
    /// when it is used up. Marks the type as used. [`StoreError::Stale`](crate::StoreError) if the
    /// type has another revision, because IDs of the old one must not be made any more.
    async fn draw(&self, draw: Draw<'_>) -> Result<Range<u64>>;

    /// Gives up serials at the end of what a holder has drawn, none of which was handed out.
    async fn give_back(&self, span: &Span, holder: &str, now: Timestamp) -> Result<GivenBack>;

    /// Notes that serials which left a shared pool are now with an instance. Serials that the pool
    /// does not hold (any more) stay where they are.
    async fn hand_over(&self, spans: &[Span], from: &str, to: &str) -> Result<()>;

    /// What a holder has drawn and not accounted for.
    async fn open_draws(&self, holder: &str) -> Result<Vec<Span>>;

    /// Records as gaps what a holder still holds of these spans, and returns these.
    async fn close_draws(
        &self,
        holder: &str,
        spans: &[Span],
        reason: GapReason,
        now: Timestamp,
    ) -> Result<Vec<Gap>>;

    /// Records what instances that are gone had drawn and not accounted for as gaps with reason
    /// `crash`, and what pools of an epoch that ended longer than `grace` ago still held as gaps
    /// with reason `pool_discarded`. A store with one instance takes every other one to be gone.
    async fn close_lost_draws(
        &self,
        instance: &str,
        grace: Duration,
        now: Timestamp,
    ) -> Result<Losses>;

    /// The next serial of each counter of a type, by period.
    async fn counters(&self, type_id: TypeId) -> Result<Vec<(String, u64)>>;

    /// The epoch of the shared pools on a server that is recognised by its identity. Another
    /// server than that of the current epoch begins the next one, and the pools of the one before
    /// are dead for ever. One step, so that instances which meet a new server together agree.
    async fn pool_epoch(&self, server: &str, now: Timestamp) -> Result<u64>;

    /// The epoch that is in force, if there is any.
    async fn current_pool_epoch(&self) -> Result<Option<u64>>;
}

/// Who holds the draws of shared pools in an epoch.
pub fn pool_holder(epoch: u64) -> String {
    format!("pool-{epoch}")
}
