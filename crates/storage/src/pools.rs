//! Pools that all instances share: IDs or serials drawn ahead of demand, in one place.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Reading, Result, TypeId};

/// Which pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolKey {
    /// The type.
    pub type_id: TypeId,
    /// Its tenant, for names that people recognise.
    pub tenant: String,
    /// Its name, likewise.
    pub name: String,
    /// The counter within the type.
    pub period: String,
}

/// What a pool holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Items {
    /// Serials of a sequence, which are written when they are handed out.
    Serials(Vec<u64>),
    /// IDs, rendered.
    Ids(Vec<String>),
}

impl Items {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Serials(serials) => serials.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What came out of a pool. It is out of it for good before the call returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawn {
    /// Fewer than wanted if there are not so many.
    pub items: Items,
    /// How many are left, or a good estimate of it.
    pub left: u64,
}

/// Renders serials; those that a filter rejects have no ID.
pub type Render = Arc<dyn Fn(Range<u64>) -> Vec<String> + Send + Sync>;

/// One step of filling a pool.
#[derive(Clone)]
pub struct TopUp {
    /// The level to reach.
    pub size: u64,
    /// Most serials to draw in this step. It bounds the memory that the step takes.
    pub serials_max: u64,
    /// The serials that the counter may give out.
    pub bounds: (u64, u64),
    /// The revision of the type that IDs are rendered for.
    pub revision: i64,
    /// How a draw becomes IDs, where a pool holds these.
    pub render: Render,
    /// The share of serials that filters accept, for choosing how many to draw.
    pub acceptance: f64,
    /// Whether to wait for another instance that is filling this pool, because it is empty.
    pub wait: bool,
    /// When.
    pub now: Timestamp,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToppedUp {
    /// The pool holds more than before, and may want another step.
    Added {
        /// Serials that were drawn.
        drawn: Range<u64>,
        /// Items that are new in the pool.
        items: u64,
        /// The level now, or a good estimate of it.
        level: u64,
    },
    /// The pool is at its size already.
    Full {
        /// The level.
        level: u64,
    },
    /// Another instance is filling it.
    Busy,
    /// The counter has no serials left; what is in the pool is all there is.
    Exhausted,
}

/// Pools that all instances share. What leaves one has left it for every instance and for ever.
#[async_trait]
pub trait SharedPools: Send + Sync {
    /// Makes what the pool needs, adopts what is there, and returns the level.
    async fn prepare(&self, pool: &PoolKey) -> Result<u64>;

    /// Takes items off a pool, in order of their serials as far as others let it.
    async fn withdraw(&self, pool: &PoolKey, count: usize) -> Result<Withdrawn>;

    /// Draws serials and adds them, if nobody else does and the pool is below its size. The draw
    /// and the adding are one step, or what a failure leaves in between is on record as drawn.
    async fn top_up(&self, pool: &PoolKey, order: TopUp) -> Result<ToppedUp>;

    /// Puts back what was withdrawn by this instance and never handed out. False if that is not
    /// possible any more, so that it has to be accounted for as a gap.
    async fn put_back(&self, pool: &PoolKey, items: &Items) -> Result<bool>;

    /// Everything that is in a pool of serials, or none if its contents are their own account.
    async fn contents(&self, pool: &PoolKey) -> Result<Option<PoolContents>>;

    /// What became of an ID that was in a pool, where the pool remembers it.
    async fn find(&self, pool: &PoolKey, id: &str) -> Result<Option<PooledId>>;

    /// What there is to measure.
    fn readings(&self) -> Vec<Reading>;

    /// Ends connections and background work.
    async fn close(&self);
}

/// An ID that is or was in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PooledId {
    /// When it was taken; none if it is still in there.
    pub taken_at: Option<Timestamp>,
}

/// The serials in a pool, and who the store says holds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolContents {
    /// The holder that the pool's draws are recorded under.
    pub holder: String,
    /// The serials, in no particular order.
    pub serials: Vec<u64>,
}
