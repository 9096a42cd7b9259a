//! The outbox: what has to reach a receiver, however often it takes.
//!
//! ```text
//!            claim ▶ delivered
//! pending ◀─────────▶ retried, or silent for too long
//!    ▲ │      ▲
//!    │ └──────┼────▶ dead      attempts used up, or not worth another
//!    │ retry  │ retry │
//!    └── abandoned ◀──┘
//! ```
//!
//! A claim does not change the state: it moves the time at which the delivery is due behind the end of
//! the claim. So a claim whose answer was lost, or whose instance is gone, ends by itself.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Batch, BatchState, DocumentKey, ReceiverId, Result, Verdict};

/// A delivery, or an event. The last ten bits are the shard that it is on, so that it says where it is;
/// those of one shard grow in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeliveryId(pub i64);

impl DeliveryId {
    const SHARD_BITS: u32 = 10;

    /// The delivery with a number on a shard.
    pub fn new(number: i64, shard: u16) -> Self {
        Self(number << Self::SHARD_BITS | i64::from(shard))
    }

    /// The shard.
    pub fn shard(self) -> u16 {
        u16::try_from(self.0 & ((1 << Self::SHARD_BITS) - 1)).unwrap_or(0)
    }

    /// The number on the shard.
    pub fn number(self) -> i64 {
        self.0 >> Self::SHARD_BITS
    }
}

/// A batch came to a state that others may want to know of: completed, needs attention or cancelled.
/// Written in the step that changed the state, and once for each change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub id: DeliveryId,
    /// The batch: how far it was then, and the rest as it is now.
    pub batch: Batch,
    /// The state that it came to.
    pub state: BatchState,
    /// When.
    pub at: Timestamp,
}

/// Something to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// To whom. It is the tenant's.
    pub receiver: ReceiverId,
    /// What tells the receiver that it has seen this before. The same in every attempt.
    pub key: String,
    /// What it is about, such as `batch.completed`.
    pub subject: String,
    /// What is sent.
    pub body: String,
}

impl NewDelivery {
    /// All but what is sent.
    pub fn heading(&self) -> Heading {
        let Self { receiver, key, subject, .. } = self;
        Heading { receiver: *receiver, key: key.clone(), subject: subject.clone() }
    }
}

/// What a delivery is about, without what is sent: that may be large, and whoever looks at a list does not
/// need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// To whom.
    pub receiver: ReceiverId,
    /// As in [`NewDelivery`].
    pub key: String,
    /// As in [`NewDelivery`].
    pub subject: String,
}

impl Heading {
    /// The whole delivery.
    pub fn with(self, body: String) -> NewDelivery {
        let Self { receiver, key, subject } = self;
        NewDelivery { receiver, key, subject, body }
    }
}

/// Whose deliveries an instance can do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The receiver.
    pub receiver: ReceiverId,
    /// Its tenant, whose shard the deliveries are on.
    pub tenant: String,
    /// At most so many.
    pub limit: usize,
    /// Whether they have to arrive in order of creation, for each type by itself: then none is taken
    /// while an earlier one of its type is pending and not due, be it claimed or waiting.
    pub ordered: bool,
}

/// A delivery that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its number.
    pub id: DeliveryId,
    /// What is to be delivered.
    pub content: NewDelivery,
    /// The number of a document.
    pub document: Option<DocumentKey>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many have failed since it was put on record or tried again by hand. One that was never heard of
    /// again has not.
    pub failures: u32,
    /// Grows with every claim. A claim with an old token can change nothing any more.
    pub token: i64,
    /// When it was put on record.
    pub created_at: Timestamp,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which one, from 1.
    pub number: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// What an HTTP receiver answered.
    pub status: Option<u16>,
    /// Why it failed; none if it did not.
    pub error: Option<String>,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it has arrived.
    Delivered,
    /// Another attempt, not before this time.
    Retry(Timestamp),
    /// A person has to decide. The number of a document is a gap with reason `outbox_dlq` until then.
    Dead,
    /// It was not tried after all: it is due at once, and this was no attempt.
    Untried,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The token of the claim.
    pub token: i64,
    /// How it went.
    pub attempt: Attempt,
    /// What follows.
    pub next: Next,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It waits, or is under way.
    Pending,
    /// It has arrived.
    Delivered,
    /// Automatic retries gave up on it.
    Dead,
    /// Somebody gave it up.
    Abandoned,
}

impl DeliveryState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::Dead, Self::Abandoned];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Abandoned => "abandoned",
        }
    }
}

/// A delivery on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Its number.
    pub id: DeliveryId,
    /// What it is about. [`OutboxStore::body_of`] has the rest.
    pub content: Heading,
    /// Where it stands.
    pub state: DeliveryState,
    /// Attempts since it was put on record or tried again by hand.
    pub attempts: u32,
    /// The last attempt that is over, a success included.
    pub last: Option<Attempt>,
    /// When the next attempt is due, or the one under way counts as failed. Only while it is pending.
    pub due_at: Option<Timestamp>,
    /// When it was put on record.
    pub created_at: Timestamp,
    /// When it came to the state that it is in; none while it is pending.
    pub settled_at: Option<Timestamp>,
}

/// Which deliveries are meant.
#[derive(Debug, Clone)]
pub struct DeliveryFilter {
    /// Whose.
    pub tenant: String,
    /// To whom.
    pub receiver: ReceiverId,
    /// Only in this state.
    pub state: Option<DeliveryState>,
    /// Only those that were put on record before this one.
    pub before: Option<DeliveryId>,
    /// At most so many.
    pub limit: usize,
}

/// Remembers events and deliveries.
#[async_trait]
pub trait OutboxStore {
    /// Events that nobody has made deliveries of, the oldest of each shard first, so many of each.
    async fn events(&self, limit: usize) -> Result<Vec<Event>>;

    /// Puts the deliveries of an event on record, due at once, and forgets the event, in one step.
    /// False if the event is not there (any more); then nothing has changed.
    async fn route_event(
        &self,
        event: DeliveryId,
        deliveries: &[NewDelivery],
        now: Timestamp,
    ) -> Result<bool>;

    /// Takes deliveries that are due, the longest due of each receiver first. Whoever claims
    /// has until `until`; what is not settled by then is due again.
    async fn claim_deliveries(
        &self,
        wanted: &[Wanted],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Delivery>>;

    /// Notes how attempts went, all in one step per shard, and what follows. False for each whose claim
    /// is not in force any more: nothing has changed for it. A failed attempt goes to the log. The gap of
    /// a document that has arrived after all is closed.
    async fn settle_deliveries(&self, outcomes: &[Outcome], now: Timestamp) -> Result<Vec<bool>>;

    /// Notes that a delivery has arrived although it was given up on, whatever became of it since: its
    /// attempt took longer than it had. The gap of a document is closed. False if it has arrived
    /// before.
    async fn note_arrival(&self, id: DeliveryId, attempt: &Attempt, now: Timestamp)
    -> Result<bool>;

    /// Deliveries to a receiver, the latest first.
    async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<DeliveryRecord>>;

    /// A delivery, with its failed attempts in order of time.
    async fn delivery(&self, id: DeliveryId) -> Result<Option<(DeliveryRecord, Vec<Attempt>)>>;

    /// What a delivery sends.
    async fn body_of(&self, id: DeliveryId) -> Result<Option<String>>;

    /// Decides about a delivery. A retry makes one that is delivered, dead or abandoned due at once,
    /// with all attempts. Abandoning takes one that is pending or dead off for good; the number of a
    /// document is a gap with reason `abandoned` then. False where there is nothing to change.
    async fn decide_delivery(
        &self,
        id: DeliveryId,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<bool>;

    /// Gives up everything that is pending for a receiver, and says how much that was.
    async fn abandon_deliveries(
        &self,
        tenant: &str,
        receiver: ReceiverId,
        now: Timestamp,
    ) -> Result<u64>;

    /// Forgets deliveries, except those of documents, that were delivered or abandoned before a time,
    /// with their attempts, at most so many of each shard, and says how many these were.
    async fn forget_deliveries(&self, before: Timestamp, limit: usize) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_says_where_it_is() {
        let id = DeliveryId::new(77, 1023);
        assert_eq!((id.number(), id.shard()), (77, 1023));
        assert!(id < DeliveryId::new(78, 0));
    }
}
