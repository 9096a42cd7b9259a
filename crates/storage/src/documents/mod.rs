//! Documents: a number and what carries it, put on record in one step and delivered through the outbox.

mod plan;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;

pub use self::plan::{KnownDocument, KnownDocuments, Plan};

use crate::{
    Delivery, DeliveryId, DeliveryRecord, DeliveryState, ReceiverId, Render, Result, Span, TypeId,
    Verdict,
};

/// A document that needs a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// What is delivered: JSON, as text.
    pub payload: String,
    /// What the client calls it. Unique for a type.
    pub reference: Option<String>,
    /// What makes a repeated request the same one, across all callers.
    pub request_key: Option<String>,
    /// Who asks: the number of the API key, or 0.
    pub key_id: i64,
}

/// Where the numbers of documents come from.
#[derive(Clone)]
pub enum Numbers {
    /// They were drawn before, and are still with this holder: serials with their IDs, in order, at least
    /// as many as there are documents. Those that are assigned are taken off the holder's draws in the
    /// same step; they are the first ones.
    Drawn {
        /// The holder.
        holder: String,
        /// The serials, ascending, with their IDs.
        ids: Vec<(u64, String)>,
    },
    /// The counter, in the same step: no gaps, whatever fails.
    Counter {
        /// The serials that the counter may give out.
        bounds: (u64, u64),
        /// Writes the IDs. Every serial has one.
        render: Render,
    },
}

/// Documents of one counter that get their numbers together.
#[derive(Clone)]
pub struct DocumentOrder {
    /// The type.
    pub type_id: TypeId,
    /// The revision of the type that the IDs are written by.
    pub revision: i64,
    /// The counter within the type.
    pub period: String,
    /// Where the numbers come from.
    pub numbers: Numbers,
    /// Whom they are delivered to.
    pub sink: ReceiverId,
    /// Whether they have to arrive in order: then whoever can see one of them can see all of its type that
    /// come before it.
    pub in_order: bool,
    /// The documents, by request. Those of one request are taken together or not at all, and no request
    /// is empty.
    pub requests: Vec<Vec<NewDocument>>,
    /// Given: the deliveries are claimed until then, as a first attempt, by whoever asks. Otherwise they
    /// are due at once.
    pub claimed_until: Option<Timestamp>,
    /// When.
    pub now: Timestamp,
}

/// What became of one document of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assigned {
    /// It has this number, and is in the outbox.
    New(Delivery),
    /// Its reference or request key is on record with the same payload, and that document has this ID.
    /// The number that was meant for it is as before.
    Known {
        /// The delivery.
        delivery: DeliveryId,
        /// The ID.
        id: String,
    },
    /// Its reference or request key is on record with another payload.
    Conflict {
        /// The ID of the other document.
        id: String,
    },
    /// Another one of its request is in conflict.
    Refused,
    /// The counter does not have numbers for all of its request.
    NoRoom,
}

/// A document in all other tables: the number of a delivery's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentKey {
    /// The type.
    pub type_id: TypeId,
    /// The counter within the type.
    pub period: String,
    /// The serial.
    pub serial: u64,
}

/// A document on record. Its ID is the key of its delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRecord {
    /// Its number.
    pub key: DocumentKey,
    /// What the client calls it.
    pub reference: Option<String>,
    /// Who asked.
    pub key_id: i64,
    /// The rest.
    pub delivery: DeliveryRecord,
}

/// Which documents to list.
#[derive(Debug, Clone)]
pub struct DocumentFilter {
    /// Of which type.
    pub type_id: TypeId,
    /// Only in this state.
    pub state: Option<DeliveryState>,
    /// Only those that were put on record before this one.
    pub before: Option<DeliveryId>,
    /// At most so many.
    pub limit: usize,
}

/// A number that is held for somebody. The last ten bits are the shard, as for [`DeliveryId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId(pub i64);

/// A number to be held.
#[derive(Debug, Clone)]
pub struct ReservationOrder {
    /// The type.
    pub type_id: TypeId,
    /// The revision of the type that the ID is written by.
    pub revision: i64,
    /// The counter within the type.
    pub period: String,
    /// Who has drawn the serial. It is taken off the draws in the same step.
    pub holder: String,
    /// The serial, and its ID.
    pub id: (u64, String),
    /// Who asks.
    pub key_id: i64,
    /// Until when it is held.
    pub expires_at: Timestamp,
    /// When.
    pub now: Timestamp,
}

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservationState {
    /// The number waits for its document.
    Held,
    /// It has one.
    Confirmed,
    /// Somebody gave it up. It is a gap with reason `reservation_released`.
    Released,
    /// Nobody came in time. It is a gap with reason `reservation_expired`.
    Expired,
}

impl ReservationState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Held, Self::Confirmed, Self::Released, Self::Expired];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Confirmed => "confirmed",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }
}

/// A number that is or was held for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its number.
    pub id: ReservationId,
    /// The number that is held.
    pub key: DocumentKey,
    /// The number as text.
    pub text: String,
    /// Where it stands.
    pub state: ReservationState,
    /// Who asked.
    pub key_id: i64,
    /// Until when it is held.
    pub expires_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What became of a document for a number that was held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmed {
    /// It has the number, and is in the outbox; or had it before, with the same payload.
    Done(Delivery),
    /// Its reference is on record for another number.
    Conflict {
        /// The ID of the other document.
        id: String,
    },
    /// The number is not held any more.
    NotHeld(ReservationState),
}

/// Remembers documents and reservations.
#[async_trait]
pub trait DocumentStore {
    /// Gives documents their numbers and puts them into the outbox, all in one step; what becomes of one
    /// request does not depend on the others. See [`Plan`]. Marks the type as used, and writes the numbers to the
    /// issue log. [`StoreError::Stale`](crate::StoreError) if the type has another revision,
    /// [`StoreError::NotFound`](crate::StoreError) if it is not there or retired. A drawn number that is
    /// recorded as lost by now was not lost after all: its gap is closed. One that is not with the
    /// holder (any more), nor a gap, fails the whole step with
    /// [`StoreError::Stale`](crate::StoreError): somebody else has it.
    async fn assign_documents(&self, order: &Arc<DocumentOrder>) -> Result<Vec<Vec<Assigned>>>;

    /// A document by its number, in any period or in one.
    async fn find_documents(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<DocumentRecord>>;

    /// The IDs of numbers of a type, each by its period and serial, where a document or a reservation has
    /// them.
    async fn written_ids(
        &self,
        type_id: TypeId,
        numbers: &[(String, u64)],
    ) -> Result<Vec<Option<String>>>;

    /// Documents, the latest first.
    async fn documents(&self, filter: &DocumentFilter) -> Result<Vec<DocumentRecord>>;

    /// Documents of some types that are dead letters, in the order of their types and the latest of each
    /// first, behind one of the first type. One step for each shard.
    async fn dead_documents(
        &self,
        types: &[TypeId],
        after: Option<(TypeId, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>>;

    /// Decides about documents of a type that are dead letters, all in one step, and returns those that
    /// were. Whatever is none (any more) stays as it is: it is on its way again, has arrived or was given
    /// up. A retry makes them due at once, with all attempts. Abandoned ones are given up for good, and
    /// their numbers are gaps with reason `abandoned`.
    async fn decide_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>>;

    /// Has documents of a type that are dead letters tried again, as [`Self::decide_documents`] does, at
    /// another sink of their tenant: their own is not there any more.
    async fn move_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        sink: ReceiverId,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>>;

    /// Holds a number. [`StoreError::Stale`](crate::StoreError) if the type has another revision or the
    /// number is not with the holder.
    async fn reserve(&self, order: &ReservationOrder) -> Result<Reservation>;

    /// A reservation.
    async fn reservation(&self, id: ReservationId) -> Result<Option<Reservation>>;

    /// Reservations of a number, in any period or in one, by period.
    async fn find_reservations(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Reservation>>;

    /// Gives a document the number that is held for it, if it still is at `now`, and puts it into the
    /// outbox, due at once; in order, as for [`DocumentOrder`].
    /// [`StoreError::NotFound`](crate::StoreError) if there is no such reservation.
    async fn confirm_reservation(
        &self,
        id: ReservationId,
        document: &NewDocument,
        sink: ReceiverId,
        in_order: bool,
        now: Timestamp,
    ) -> Result<Confirmed>;

    /// Gives a number up that is held. Returns the reservation as it is now.
    async fn release_reservation(
        &self,
        id: ReservationId,
        now: Timestamp,
    ) -> Result<Option<Reservation>>;

    /// Makes gaps of numbers whose time has run out, at most so many of each shard, and returns these.
    async fn expire_reservations(&self, now: Timestamp, limit: usize) -> Result<Vec<Span>>;
}
