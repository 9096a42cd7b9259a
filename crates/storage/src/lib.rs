#![doc = include_str!("../README.md")]

mod answers;
mod audit;
mod batch_id;
mod batches;
mod chunks;
mod codes;
mod counters;
mod documents;
mod error;
mod instances;
mod issues;
mod keys;
mod manifests;
mod noticeboard;
mod outbox;
pub mod packing;
mod pools;
mod readings;
mod receivers;
mod types;

pub use answers::{Answer, AnswerClaim, AnswerKey, AnswerStore, Claimant};
pub use audit::{AuditStore, Deed, DeedFilter};
pub use batch_id::{BatchId, SNOWFLAKE_EPOCH_MS, SNOWFLAKES_PER_MS};
pub use batches::{
    Batch, BatchFilter, BatchOrder, BatchState, BatchStore, Now, Ordered, Progress, Void, Wake,
    always,
};
pub use chunks::{Chunk, ClaimTerms, DeadChunk, DeadFilter, Verdict, WorkerName};
pub use codes::{
    BatchRange, CODES_PER_TABLE, CodeKey, CodeStatus, CodeStore, KeptContext, PlacedContext,
    ScanContext, ScanKey,
};
pub use counters::{CounterStore, Draw, GivenBack, Losses, Span, pool_holder};
pub use documents::{
    Assigned, Confirmed, DocumentFilter, DocumentKey, DocumentOrder, DocumentRecord, DocumentStore,
    KnownDocument, KnownDocuments, NewDocument, Numbers, Plan, Reservation, ReservationId,
    ReservationOrder, ReservationState,
};
pub use error::{Result, StoreError};
pub use idgen::spec::Ledger;
pub use instances::InstanceStore;
pub use issues::{
    Gap, GapFilter, GapReason, GapTotals, Issue, IssueGroup, IssueRecord, IssueStore, Page,
    Reconciled, SignOff,
};
pub use keys::{ApiKey, KeyStore, NewApiKey, Scope};
pub use manifests::{Manifest, ManifestStore};
pub use noticeboard::{BoardTime, Dispatch, HotCode, HotCodes, Noticeboard, ProgressBoard};
pub use outbox::{
    Attempt, Delivery, DeliveryFilter, DeliveryId, DeliveryRecord, DeliveryState, Event, Heading,
    NewDelivery, Next, OutboxStore, Outcome, Wanted,
};
pub use pools::{
    Items, PoolContents, PoolKey, PooledId, Render, SharedPools, TopUp, ToppedUp, Withdrawn,
};
pub use readings::Reading;
pub use receivers::{NewReceiver, Purpose, Receiver, ReceiverId, ReceiverStore};
pub use types::{Change, Removal, StoredType, Tenant, TenantLimits, TypeId, TypeState, TypeStore};

/// Everything that the service needs to remember.
#[async_trait::async_trait]
pub trait Store:
    TypeStore
    + CounterStore
    + IssueStore
    + AnswerStore
    + KeyStore
    + InstanceStore
    + BatchStore
    + CodeStore
    + ManifestStore
    + ReceiverStore
    + OutboxStore
    + AuditStore
    + DocumentStore
    + Send
    + Sync
{
    /// Whether the store answers and can write.
    async fn check(&self) -> Result<()>;

    /// A number that grows with every change of types, tenants, API keys and receivers, so that an instance
    /// can tell whether what it has in memory is still right.
    async fn catalogue_version(&self) -> Result<u64>;

    /// What there is to measure.
    fn readings(&self) -> Vec<Reading> {
        Vec::new()
    }

    /// Writes out what is still in flight and releases files and connections.
    async fn close(&self) -> Result<()>;
}
