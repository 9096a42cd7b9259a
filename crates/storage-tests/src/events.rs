//! Events: batches that came to a state which others may want to know of.

use std::sync::Arc;

use storage::{
    Batch, BatchId, BatchOrder, BatchState, Event, Ledger, Ordered, Store, Verdict, always,
};

use crate::Fixture;
use crate::batch_support::{
    ATTEMPTS_MAX, CHUNK, SILENT_SECONDS, batch_order, claim, claimed, derived, kill, make, now_is,
    ordered, settle, stored, type_of,
};
use crate::outbox_support::events;
use crate::support::{at, crash, new_sequence, open};

/// The states that batches came to, each with the seconds of the time.
async fn told(store: &dyn Store) -> Vec<(BatchId, BatchState, i64)> {
    let found = events(store).await;
    found
        .into_iter()
        .map(|event| {
            let seconds = event.at.duration_since(at(0)).as_secs();
            (event.batch.id, event.state, seconds)
        })
        .collect()
}

pub async fn a_batch_tells_of_its_last_chunk(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    make(&*store, 1, 10).await;
    let failed = claimed(&*store, 11).await;
    assert!(store.fail_chunk(&failed, "no room", Some(at(12)), at(11)).await.unwrap());
    assert_eq!(told(&*store).await, [], "nothing of note has happened");
    let last = claimed(&*store, 12).await;
    assert!(store.finish_chunk(&last, always(at(13))).await.unwrap());
    assert!(!store.finish_chunk(&last, always(at(14))).await.unwrap());
    store.cancel_batch(batch.id, None, at(15)).await.unwrap();
    store.recall_batch(batch.id, "misprint", at(16)).await.unwrap();
    let store = crash(fixture, store).await;
    assert_eq!(told(&*store).await, [(batch.id, BatchState::Completed, 13)]);
}

pub async fn a_derived_batch_tells_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let order = BatchOrder {
        ledger: Ledger::Derived,
        order_key: Some("one".to_owned()),
        now: at(3),
        ..batch_order(id, 5)
    };
    let batch = ordered(&*store, &order).await;
    assert_eq!(ordered(&*store, &BatchOrder { now: at(4), ..order }).await, batch);
    let store = crash(fixture, store).await;
    let found = events(&*store).await;
    assert_eq!(found.len(), 1);
    let expected = Event { id: found[0].id, batch, state: BatchState::Completed, at: at(3) };
    assert_eq!(found, [expected]);
}

pub async fn an_order_that_is_refused_tells_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let order = BatchOrder { ledger: Ledger::Derived, bounds: (0, 5), ..batch_order(id, 6) };
    assert_eq!(store.order_batch(&order).await.unwrap(), Ordered::NoRoom { drawn: 0 });
    store.order_batch(&BatchOrder { revision: 9, ..order }).await.unwrap_err();
    assert_eq!(told(&*store).await, []);
}

/// Once for each time, not for each dead letter.
pub async fn a_batch_tells_each_time_it_needs_attention(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 3 * CHUNK).await;
    let decide = async |number, verdict, seconds| {
        assert!(settle(&*store, (batch.id, number), verdict, seconds).await);
    };
    kill(&*store, 10).await;
    let needed = |seconds| (batch.id, BatchState::NeedsAttention, seconds);
    assert_eq!(told(&*store).await, [needed(10)]);
    kill(&*store, 11).await;
    make(&*store, 1, 12).await;
    decide(0, Verdict::Retry, 13).await;
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::NeedsAttention);
    assert_eq!(told(&*store).await, [needed(10)], "it has stayed there");
    decide(1, Verdict::Retry, 14).await;
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::Running);
    assert_eq!(told(&*store).await, [needed(10)], "that it runs is not told");
    kill(&*store, 15).await;
    assert_eq!(told(&*store).await, [needed(10), needed(15)]);
    kill(&*store, 16).await;
    decide(0, Verdict::Abandon, 17).await;
    assert_eq!(told(&*store).await, [needed(10), needed(15)]);
    decide(1, Verdict::Abandon, 18).await;
    let completed = (batch.id, BatchState::Completed, 18);
    assert_eq!(told(&*store).await, [needed(10), needed(15), completed]);
}

/// Whoever is told late hears of what was, and not of what has become of it.
pub async fn an_event_tells_how_far_the_batch_was(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 3 * CHUNK).await;
    make(&*store, 1, 10).await;
    kill(&*store, 11).await;
    make(&*store, 1, 12).await;
    assert!(settle(&*store, (batch.id, 1), Verdict::Retry, 13).await);
    make(&*store, 1, 14).await;
    let store = crash(fixture, store).await;
    let found = events(&*store).await;
    let figures = |event: &Event| {
        let Batch { made, dead_chunks, finished_at, .. } = event.batch;
        (event.state, made, dead_chunks, finished_at)
    };
    let expected = [
        (BatchState::NeedsAttention, CHUNK, 1, None),
        (BatchState::Completed, 3 * CHUNK, 0, Some(at(14))),
    ];
    assert_eq!(found.iter().map(figures).collect::<Vec<_>>(), expected);
    assert_eq!(found[0].batch.error.as_deref(), Some("on purpose"));
}

pub async fn a_silent_worker_is_told_of_when_its_chunk_dies(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK).await;
    let mut seconds = 10;
    for attempt in 1..=ATTEMPTS_MAX {
        assert_eq!(claimed(&*store, seconds).await.attempt, attempt);
        assert_eq!(told(&*store).await, []);
        seconds += SILENT_SECONDS + 1;
    }
    for later in [0, 1] {
        assert_eq!(claim(&*store, seconds + later).await, None);
    }
    assert_eq!(told(&*store).await, [(batch.id, BatchState::NeedsAttention, seconds)]);
}

pub async fn a_batch_tells_once_that_it_was_cancelled(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batches = [stored(&*store, id, CHUNK).await, stored(&*store, id, CHUNK).await];
    kill(&*store, 10).await;
    for seconds in [11, 12] {
        for batch in &batches {
            store.cancel_batch(batch.id, None, at(seconds)).await.unwrap();
        }
    }
    let expected = [
        (batches[0].id, BatchState::NeedsAttention, 10),
        (batches[0].id, BatchState::Cancelled, 11),
        (batches[1].id, BatchState::Cancelled, 11),
    ];
    assert_eq!(told(&*store).await, expected);
}

/// Chunks that die at once, or are finished at once, change the state of their batch once.
pub async fn what_happens_at_once_is_told_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let mut batches = Vec::new();
    for _ in 0..3 {
        batches.push(stored(&*store, id, 6 * CHUNK).await.id);
    }
    let mut chunks = Vec::new();
    for _ in 0..18 {
        chunks.push(claimed(&*store, 10).await);
    }
    let (completed, failed) = (batches[0], batches[1]);
    let tasks: Vec<_> = chunks
        .into_iter()
        .map(|chunk| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                if chunk.batch == completed {
                    store.finish_chunk(&chunk, always(at(11))).await.map(drop)
                } else if chunk.batch == failed {
                    store.fail_chunk(&chunk, "on purpose", None, at(11)).await.map(drop)
                } else {
                    store.cancel_batch(chunk.batch, None, at(11)).await.map(drop)
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let mut found = told(&*store).await;
    found.sort_by_key(|(batch, ..)| *batch);
    let expected = [
        (batches[0], BatchState::Completed, 11),
        (batches[1], BatchState::NeedsAttention, 11),
        (batches[2], BatchState::Cancelled, 11),
    ];
    assert_eq!(found, expected);
}

/// What has to do with the batch and not with how far it was: whom to tell, for instance.
pub async fn an_event_shows_the_rest_of_its_batch_as_it_is_now(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let order = BatchOrder { notify: Some("[\"hook\"]".to_owned()), ..batch_order(id, CHUNK) };
    let batch = ordered(&*store, &order).await;
    kill(&*store, 10).await;
    store.cancel_batch(batch.id, None, at(11)).await.unwrap();
    let now = store.recall_batch(batch.id, "misprint", at(12)).await.unwrap().unwrap();
    assert_eq!((now.state, now.notify.as_deref()), (BatchState::Cancelled, Some("[\"hook\"]")));
    let shown: Vec<Batch> = events(&*store).await.into_iter().map(|event| event.batch).collect();
    assert_eq!(shown[1], now);
    let finished_at = None;
    assert_eq!(shown[0], Batch { dead_chunks: 1, finished_at, ..now });
}

pub async fn the_oldest_events_come_first(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(derived(&*store, id, 1).await.id);
    }
    let all = events(&*store).await;
    assert!(all.is_sorted_by(|one, next| one.id < next.id));
    assert_eq!(all.iter().map(|event| event.batch.id).collect::<Vec<_>>(), expected);
    for limit in 0..6 {
        assert_eq!(store.events(limit).await.unwrap(), all[..limit.min(5)]);
    }
    // The numbers of what was forgotten do not come back.
    for event in &all {
        assert!(store.route_event(event.id, &[], at(2)).await.unwrap());
    }
    let store = crash(fixture, store).await;
    derived(&*store, id, 1).await;
    assert!(events(&*store).await[0].id > all[4].id);
}

/// Tenants may be kept in different places, each with so many.
pub async fn events_of_several_tenants_are_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut expected = Vec::new();
    for tenant in ["a", "b", "c"] {
        let id = type_of(&*store, tenant, "code").await;
        expected.push(derived(&*store, id, 1).await.id);
    }
    let mut found: Vec<_> = events(&*store).await.iter().map(|event| event.batch.id).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for event in events(&*store).await {
        assert!(store.route_event(event.id, &[], at(2)).await.unwrap());
    }
    assert_eq!(events(&*store).await, []);
}
