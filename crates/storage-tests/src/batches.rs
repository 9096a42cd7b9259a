//! Batches on record: lists and recalls.

use storage::{Batch, BatchFilter, BatchId, BatchState, Store, Void};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, batch_order, claimed, derived, kill, make, now_is, ordered, stored, type_of,
};
use crate::support::{at, crash, new_sequence, open};

async fn list(store: &dyn Store, filter: BatchFilter) -> Vec<Batch> {
    store.batches(&BatchFilter { limit: 100, ..filter }).await.unwrap()
}

pub async fn batches_are_listed_latest_first(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    assert_eq!(list(&*store, BatchFilter::default()).await, []);
    let mut all = Vec::new();
    for type_id in [a, b, a, a, b] {
        all.push(stored(&*store, type_id, 5).await);
        all.push(derived(&*store, type_id, 5).await);
    }
    all.reverse();
    assert_eq!(list(&*store, BatchFilter::default()).await, all);
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let filter = BatchFilter { before, limit: 3, ..BatchFilter::default() };
        let page = store.batches(&filter).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        before = Some(last.id);
        pages.extend(page);
    }
    assert_eq!(pages, all);
    assert_eq!(store.batches(&BatchFilter::default()).await.unwrap(), [], "the limit is 0");
}

/// Tenants may be kept in different places.
pub async fn batches_of_several_tenants_are_listed_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut all = Vec::new();
    for number in 0..4 {
        let id = type_of(&*store, &format!("tenant{number}"), "code").await;
        for round in 0..3 {
            let now = at(100 * round + number);
            let order = storage::BatchOrder { now, ..batch_order(id, 5) };
            all.push(ordered(&*store, &order).await);
        }
    }
    all.sort_by_key(|batch| std::cmp::Reverse(batch.id));
    assert_eq!(list(&*store, BatchFilter::default()).await, all);
    let filter = BatchFilter { before: Some(all[4].id), limit: 5, ..BatchFilter::default() };
    assert_eq!(store.batches(&filter).await.unwrap(), all[5..10]);
}

pub async fn batches_are_listed_by_type_and_state(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let attention = stored(&*store, a, CHUNK).await.id;
    kill(&*store, 10).await;
    let running = stored(&*store, b, CHUNK).await.id;
    claimed(&*store, 11).await;
    let cancelled = stored(&*store, a, CHUNK).await.id;
    store.cancel_batch(cancelled, None, at(12)).await.unwrap();
    let completed = derived(&*store, b, CHUNK).await.id;
    let queued = stored(&*store, a, CHUNK).await.id;
    let ids = |batches: Vec<Batch>| batches.iter().map(|batch| batch.id).collect::<Vec<_>>();
    for (state, id) in [
        (BatchState::Queued, queued),
        (BatchState::Running, running),
        (BatchState::Completed, completed),
        (BatchState::NeedsAttention, attention),
        (BatchState::Cancelled, cancelled),
    ] {
        let filter = BatchFilter { state: Some(state), ..BatchFilter::default() };
        assert_eq!(ids(list(&*store, filter.clone()).await), [id], "{state:?}");
        let before = Some(id);
        assert_eq!(list(&*store, BatchFilter { before, ..filter }).await, [], "{state:?}");
    }
    let of = |types: &[_]| BatchFilter { types: Some(types.to_vec()), ..BatchFilter::default() };
    assert_eq!(ids(list(&*store, of(&[a])).await), [queued, cancelled, attention]);
    assert_eq!(ids(list(&*store, of(&[b])).await), [completed, running]);
    assert_eq!(list(&*store, of(&[a, b])).await.len(), 5);
    assert_eq!(list(&*store, of(&[])).await, []);
    let both = BatchFilter { state: Some(BatchState::Queued), ..of(&[b]) };
    assert_eq!(list(&*store, both).await, []);
}

pub async fn an_unknown_batch_is_not_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 5).await;
    for unknown in [BatchId(0), BatchId::new(1, 0), BatchId(batch.id.0 + 1), BatchId(i64::MAX)] {
        assert_eq!(store.batch(unknown).await.unwrap(), None);
        assert_eq!(store.cancel_batch(unknown, None, at(2)).await.unwrap(), None);
        assert_eq!(store.recall_batch(unknown, "a reason", at(2)).await.unwrap(), None);
    }
}

pub async fn the_first_recall_stays(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let running = stored(&*store, id, 2 * CHUNK).await;
    make(&*store, 1, 9).await;
    let queued = stored(&*store, id, CHUNK).await;
    let complete = derived(&*store, id, CHUNK).await;
    let first = Some(Void { at: at(10), reason: "wrong label".to_owned() });
    for batch in [running, queued, complete] {
        let before = now_is(&*store, batch.id).await;
        assert_eq!(before.recalled, None);
        for (reason, seconds) in [("wrong label", 10), ("another", 20)] {
            let recalled = store.recall_batch(batch.id, reason, at(seconds)).await.unwrap();
            let expected = Batch { recalled: first.clone(), ..before.clone() };
            assert_eq!(recalled.as_ref(), Some(&expected));
            store = crash(fixture, store).await;
            assert_eq!(now_is(&*store, batch.id).await, expected);
        }
    }
}
