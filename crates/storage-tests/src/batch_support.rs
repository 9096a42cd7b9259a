//! What the behaviours of batches have in common.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use storage::{
    Batch, BatchFilter, BatchId, BatchOrder, Chunk, ClaimTerms, CodeKey, DeadChunk, DeadFilter,
    GapReason, Ledger, Ordered, Span, Store, TypeId, Verdict, WorkerName, always,
};

use crate::support::{UNBOUNDED, at, gaps, merged, sequence};

/// Serials of a chunk, in most tests.
pub(crate) const CHUNK: u64 = 10;

/// For how many seconds a worker may be silent.
pub(crate) const SILENT_SECONDS: i64 = 1800;

/// How often a chunk is tried.
pub(crate) const ATTEMPTS_MAX: u32 = 3;

/// An order for codes of a type that was never changed, without limits.
pub(crate) fn batch_order(type_id: TypeId, count: u64) -> BatchOrder {
    BatchOrder {
        type_id,
        revision: 0,
        count,
        bounds: UNBOUNDED,
        chunk_serials: CHUNK,
        ledger: Ledger::Stored,
        name: None,
        metadata: None,
        key_id: 7,
        notify: None,
        order_key: None,
        active_max: u64::MAX,
        codes_max: u64::MAX,
        now: at(1),
    }
}

/// A type of some tenant.
pub(crate) async fn type_of(store: &dyn Store, tenant: &str, name: &str) -> TypeId {
    store.create_type(&sequence(tenant, name), &[], at(0)).await.unwrap().id
}

/// The batch of an order that must not be refused.
pub(crate) async fn ordered(store: &dyn Store, order: &BatchOrder) -> Batch {
    match store.order_batch(order).await.unwrap() {
        Ordered::Done(batch) => batch,
        refused => panic!("{order:?}: {refused:?}"),
    }
}

/// A stored batch of so many codes.
pub(crate) async fn stored(store: &dyn Store, type_id: TypeId, count: u64) -> Batch {
    ordered(store, &batch_order(type_id, count)).await
}

/// A derived batch of so many codes.
pub(crate) async fn derived(store: &dyn Store, type_id: TypeId, count: u64) -> Batch {
    ordered(store, &BatchOrder { ledger: Ledger::Derived, ..batch_order(type_id, count) }).await
}

/// A batch as it is now.
pub(crate) async fn now_is(store: &dyn Store, id: BatchId) -> Batch {
    store.batch(id).await.unwrap().unwrap()
}

/// All batches of a type, in order of serials.
pub(crate) async fn batches_of(store: &dyn Store, type_id: TypeId) -> Vec<Batch> {
    let filter = BatchFilter { types: Some(vec![type_id]), limit: 1000, ..BatchFilter::default() };
    let mut batches = store.batches(&filter).await.unwrap();
    batches.sort_by_key(|batch| batch.serials.start);
    batches
}

/// The terms of a claim at a time.
pub(crate) fn terms(seconds: i64) -> ClaimTerms {
    let silent = Duration::from_secs(SILENT_SECONDS.unsigned_abs());
    ClaimTerms { silent, attempts_max: ATTEMPTS_MAX, now: at(seconds) }
}

/// A worker of an instance.
pub(crate) fn worker(instance: &str, number: u32) -> WorkerName {
    WorkerName { instance: instance.to_owned(), number }
}

/// A worker that nobody was before. One that asks again has lost what it was given, so whoever
/// wants several chunks at once needs several workers.
pub(crate) fn new_worker() -> WorkerName {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    worker("workers", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A claim at a time, if there is anything to do.
pub(crate) async fn claim(store: &dyn Store, seconds: i64) -> Option<Chunk> {
    store.claim_chunk(&new_worker(), None, terms(seconds)).await.unwrap()
}

/// A claim of a worker at a time, if there is anything to do.
pub(crate) async fn claim_as(
    store: &dyn Store,
    (instance, number): (&str, u32),
    seconds: i64,
) -> Option<Chunk> {
    store.claim_chunk(&worker(instance, number), None, terms(seconds)).await.unwrap()
}

/// A claim at a time when there is something to do.
pub(crate) async fn claimed(store: &dyn Store, seconds: i64) -> Chunk {
    claim(store, seconds).await.expect("a chunk waits")
}

/// Makes the next so many chunks.
pub(crate) async fn make(store: &dyn Store, chunks: u64, seconds: i64) {
    for _ in 0..chunks {
        let chunk = claimed(store, seconds).await;
        assert!(store.finish_chunk(&chunk, always(at(seconds))).await.unwrap());
    }
}

/// Claims the next chunk and gives up on it.
pub(crate) async fn kill(store: &dyn Store, seconds: i64) -> Chunk {
    let chunk = claimed(store, seconds).await;
    assert!(store.fail_chunk(&chunk, "on purpose", None, at(seconds)).await.unwrap());
    chunk
}

/// Decides about a dead letter. False if it is none.
pub(crate) async fn settle(
    store: &dyn Store,
    chunk: (BatchId, u64),
    verdict: Verdict,
    seconds: i64,
) -> bool {
    store.settle_chunks(&[chunk], verdict, at(seconds)).await.unwrap() == 1
}

/// All dead letters.
pub(crate) async fn dead(store: &dyn Store) -> Vec<DeadChunk> {
    store.dead_chunks(&DeadFilter { limit: 1000, ..DeadFilter::default() }).await.unwrap()
}

/// The serials of gaps with a reason, each as start and end, in order and with neighbours joined.
pub(crate) async fn gaps_because(
    store: &dyn Store,
    type_id: TypeId,
    reason: GapReason,
) -> Vec<(u64, u64)> {
    let mut found = gaps(store, type_id).await;
    found.retain(|gap| gap.reason == reason);
    merged(&found)
        .into_iter()
        .map(|Span { period, serials, .. }| {
            assert_eq!(period, "", "batches draw from the counter without a period");
            (serials.start, serials.end)
        })
        .collect()
}

/// A code of a batch, counted from 0.
pub(crate) fn code(batch: &Batch, position: u64) -> CodeKey {
    CodeKey {
        type_id: batch.type_id,
        batch: batch.id,
        ledger: batch.ledger,
        serial: batch.serials.start + position,
    }
}
