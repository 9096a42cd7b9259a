//! Counters: the one thing that makes IDs unique.

use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{Gap, Result, TypeId};

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
    /// Who draws.
    pub instance: &'a str,
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

/// Remembers how far each counter has been drawn.
#[async_trait]
pub trait CounterStore {
    /// Takes the next serials of a counter, durably, before it returns. The first draw starts
    /// the counter. Fewer serials than wanted come back at the end of the space, and an empty range
    /// when it is used up. Marks the type as used.
    async fn draw(&self, draw: Draw<'_>) -> Result<Range<u64>>;

    /// Gives up serials at the end of a draw of this instance, none of which was handed out.
    async fn give_back(&self, span: &Span, instance: &str, now: Timestamp) -> Result<GivenBack>;

    /// Records what instances that are gone had drawn and not accounted for as gaps with reason
    /// `crash`, and returns these. A store with one instance takes every other one to be gone.
    async fn close_lost_draws(&self, instance: &str, now: Timestamp) -> Result<Vec<Gap>>;

    /// The next serial of each counter of a type, by period.
    async fn counters(&self, type_id: TypeId) -> Result<Vec<(String, u64)>>;
}
