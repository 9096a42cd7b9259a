//! Which codes of a batch are made.

use std::ops::Range;

use storage::{BatchId, Store, Verdict, always};

use crate::Fixture;
use crate::batch_support::{CHUNK, claimed, derived, kill, make, settle, stored};
use crate::support::{at, crash, draw, new_sequence, open};

/// What is made, each range as start and end.
async fn made(store: &dyn Store, id: BatchId) -> Vec<(u64, u64)> {
    let ranges = store.made(id).await.unwrap();
    ranges.into_iter().map(|serials| (serials.start, serials.end)).collect()
}

pub async fn what_is_made_is_told_in_few_ranges(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    draw(&*store, id, 5).await;
    let batch = stored(&*store, id, 75).await;
    let other = stored(&*store, id, CHUNK).await;
    assert_eq!(made(&*store, batch.id).await, []);
    make(&*store, 2, 10).await;
    assert_eq!(made(&*store, batch.id).await, [(5, 25)]);
    let slow = claimed(&*store, 11).await;
    make(&*store, 1, 12).await;
    assert_eq!(made(&*store, batch.id).await, [(5, 25), (35, 45)]);
    kill(&*store, 13).await;
    make(&*store, 1, 14).await;
    let expected = [(5, 25), (35, 45), (55, 65)];
    assert_eq!(made(&*store, batch.id).await, expected);
    assert!(settle(&*store, (batch.id, 4), Verdict::Abandon, 15).await);
    assert_eq!(made(&*store, batch.id).await, expected);
    assert!(store.finish_chunk(&slow, always(at(16))).await.unwrap());
    let expected = [(5, 45), (55, 65)];
    assert_eq!(made(&*store, batch.id).await, expected);
    store.cancel_batch(batch.id, None, at(17)).await.unwrap();
    let store = crash(fixture, store).await;
    assert_eq!(made(&*store, batch.id).await, expected);
    assert_eq!(made(&*store, other.id).await, []);
    store.cancel_batch(other.id, None, at(18)).await.unwrap();
    assert_eq!(made(&*store, other.id).await, []);
}

/// Gaps on either side of a batch are not its own.
pub async fn a_complete_batch_is_made_as_a_whole(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let before = stored(&*store, id, CHUNK).await;
    let batch = stored(&*store, id, 25).await;
    let after = stored(&*store, id, CHUNK).await;
    let whole = derived(&*store, id, 1_000_000).await;
    for neighbour in [before, after] {
        store.cancel_batch(neighbour.id, None, at(5)).await.unwrap();
    }
    make(&*store, 3, 10).await;
    for batch in [batch, whole] {
        let Range { start, end } = batch.serials;
        assert_eq!(made(&*store, batch.id).await, [(start, end)]);
    }
    assert_eq!(made(&*store, BatchId::new(1, 0)).await, []);
}
