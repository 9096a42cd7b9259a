//! Chunks that automatic retries gave up on.

use storage::{
    Batch, BatchId, BatchOrder, BatchState, ClaimTerms, DeadChunk, DeadFilter, GapReason, Ordered,
    Store, Verdict, always,
};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, SILENT_SECONDS, batch_order, claim, claimed, dead, gaps_because, kill, make, new_worker,
    now_is, ordered, settle, stored, terms, type_of,
};
use crate::support::{at, crash, gaps, new_sequence, open};

pub async fn a_chunk_without_another_attempt_is_a_dead_letter(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 3 * CHUNK).await;
    make(&*store, 1, 9).await;
    let chunk = kill(&*store, 10).await;
    assert!(!store.finish_chunk(&chunk, always(at(11))).await.unwrap());
    let letter = DeadChunk {
        batch: batch.id,
        type_id: id,
        number: 1,
        serials: CHUNK..2 * CHUNK,
        attempts: 1,
        error: "on purpose".to_owned(),
        died_at: at(10),
    };
    let store = crash(fixture, store).await;
    assert_eq!(dead(&*store).await, [letter]);
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks), (BatchState::NeedsAttention, 1));
    assert_eq!(now.error.as_deref(), Some("on purpose"));
    assert_eq!(claimed(&*store, 11).await.number, 2, "the others go on");
    let state = now_is(&*store, batch.id).await.state;
    assert_eq!(state, BatchState::NeedsAttention, "a claim is no help");
    make_again(&*store).await;
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::NeedsAttention, 2 * CHUNK));
    assert_eq!((now.finished_at, now.abandoned), (None, 0));
    assert_eq!(gaps(&*store, id).await, []);
}

/// Makes a chunk whose worker went away.
async fn make_again(store: &dyn Store) {
    make(store, 1, 20 + SILENT_SECONDS).await;
    assert_eq!(claim(store, 30 + SILENT_SECONDS).await, None, "nobody claims a dead letter");
}

pub async fn a_chunk_that_is_silent_too_often_is_a_dead_letter(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK).await;
    let claim_at = async |seconds| {
        let terms = ClaimTerms { attempts_max: 2, ..terms(seconds) };
        store.claim_chunk(&new_worker(), None, terms).await.unwrap()
    };
    for (seconds, attempt) in [(10, 1), (2000, 2)] {
        assert_eq!(claim_at(seconds).await.map(|chunk| chunk.attempt), Some(attempt));
    }
    assert_eq!(claim_at(3000).await, None);
    assert_eq!(dead(&*store).await, []);
    let next = stored(&*store, id, CHUNK).await;
    let chunk = claim_at(4000).await.unwrap();
    assert_eq!(chunk.batch, next.id, "the dead letter does not hold up the others");
    let letters = dead(&*store).await;
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].batch, letters[0].number), (batch.id, 0));
    assert_eq!((letters[0].attempts, letters[0].died_at), (2, at(4000)));
    assert!(!letters[0].error.is_empty());
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks), (BatchState::NeedsAttention, 1));
    assert_eq!(now.error.as_ref(), Some(&letters[0].error));
}

pub async fn dead_letters_are_listed_in_order(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let (first, second) = (stored(&*store, a, 4 * CHUNK).await, stored(&*store, b, 25).await);
    for seconds in 10..13 {
        kill(&*store, seconds).await;
    }
    make(&*store, 1, 20).await;
    for seconds in 13..16 {
        kill(&*store, seconds).await;
    }
    let key = |letter: &DeadChunk| (letter.batch, letter.number);
    let list = async |filter: DeadFilter| {
        let letters = store.dead_chunks(&filter).await.unwrap();
        letters.iter().map(key).collect::<Vec<_>>()
    };
    let all: Vec<_> =
        [first.id, second.id].into_iter().flat_map(|id| [(id, 0), (id, 1), (id, 2)]).collect();
    let every = DeadFilter { limit: 100, ..DeadFilter::default() };
    assert_eq!(list(every.clone()).await, all);
    assert_eq!(list(DeadFilter { types: Some(vec![b]), ..every.clone() }).await, all[3..]);
    assert_eq!(list(DeadFilter { types: Some(vec![]), ..every.clone() }).await, []);
    assert_eq!(list(DeadFilter { batch: Some(first.id), ..every.clone() }).await, all[..3]);
    let one = DeadFilter { batch: Some(second.id), chunk: Some(1), ..every.clone() };
    assert_eq!(list(one).await, [all[4]]);
    for place in 0..6 {
        let after = Some(all[place]);
        assert_eq!(list(DeadFilter { after, ..every.clone() }).await, all[place + 1..]);
        let page = DeadFilter { after, limit: 2, ..every.clone() };
        assert_eq!(list(page).await, all[place + 1..6.min(place + 3)]);
    }
    assert_eq!(list(DeadFilter::default()).await, [], "the limit is 0");
}

/// Tenants may be kept in different places.
pub async fn dead_letters_of_several_tenants_are_listed_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for tenant in ["a", "b", "c"] {
        let id = type_of(&*store, tenant, "code").await;
        stored(&*store, id, 2 * CHUNK).await;
    }
    for seconds in 10..16 {
        kill(&*store, seconds).await;
    }
    let all = dead(&*store).await;
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by_key(|letter| (letter.batch, letter.number)));
    let after = Some((all[1].batch, all[1].number));
    let page = DeadFilter { after, limit: 3, ..DeadFilter::default() };
    assert_eq!(store.dead_chunks(&page).await.unwrap(), all[2..5]);
}

pub async fn a_dead_letter_is_tried_again_with_all_attempts(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    let killed = [kill(&*store, 10).await, kill(&*store, 11).await];
    let retry = async |number| settle(&*store, (batch.id, number), Verdict::Retry, 12).await;
    assert!(retry(0).await);
    assert!(!retry(0).await);
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks), (BatchState::NeedsAttention, 1));
    assert!(retry(1).await);
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks), (BatchState::Running, 0));
    assert_eq!(dead(&*store).await, []);
    for old in killed {
        assert!(!store.finish_chunk(&old, always(at(13))).await.unwrap());
        let chunk = claimed(&*store, 13).await;
        assert_eq!((chunk.number, chunk.attempt), (old.number, 1));
        assert!(chunk.token > old.token);
        assert!(!store.finish_chunk(&old, always(at(13))).await.unwrap());
        assert!(store.finish_chunk(&chunk, always(at(14))).await.unwrap());
    }
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::Completed, 2 * CHUNK));
    assert_eq!(gaps(&*store, id).await, []);
}

pub async fn an_abandoned_dead_letter_is_a_gap(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 25).await;
    kill(&*store, 10).await;
    let abandon = async |number, seconds| {
        settle(&*store, (batch.id, number), Verdict::Abandon, seconds).await
    };
    assert!(abandon(0, 11).await);
    assert!(!abandon(0, 12).await);
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks, now.abandoned), (BatchState::Running, 0, CHUNK));
    assert_eq!(gaps_because(&*store, id, GapReason::Abandoned).await, [(0, 10)]);
    assert_eq!(gaps(&*store, id).await[0].detected_at, at(11));
    make(&*store, 1, 13).await;
    kill(&*store, 14).await;
    assert!(abandon(2, 15).await);
    let store = crash(fixture, store).await;
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.finished_at), (BatchState::Completed, Some(at(15))));
    assert_eq!((now.made, now.abandoned, now.dead_chunks), (10, 15, 0));
    assert_eq!(gaps_because(&*store, id, GapReason::Abandoned).await, [(0, 10), (20, 25)]);
    assert_eq!(gaps(&*store, id).await.len(), 2);
    assert_eq!(claim(&*store, 10_000).await, None);
}

/// The last chunk that is made completes a batch that has lost others.
pub async fn a_batch_completes_around_what_was_abandoned(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    kill(&*store, 10).await;
    assert!(settle(&*store, (batch.id, 0), Verdict::Abandon, 11).await);
    make(&*store, 1, 12).await;
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.finished_at), (BatchState::Completed, Some(at(12))));
    assert_eq!((now.made, now.abandoned), (CHUNK, CHUNK));
}

pub async fn many_dead_letters_are_settled_in_one_step(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut chunks = Vec::new();
    for name in ["one", "two"] {
        let id = new_sequence(&*store, name).await;
        let batch = stored(&*store, id, 3 * CHUNK).await;
        chunks.extend((0..3).map(|number| (batch.id, number)));
    }
    for seconds in 10..16 {
        kill(&*store, seconds).await;
    }
    chunks.push((chunks[0].0, 7));
    let settle = async |verdict| store.settle_chunks(&chunks, verdict, at(20)).await.unwrap();
    assert_eq!(settle(Verdict::Retry).await, 6);
    assert_eq!(settle(Verdict::Retry).await, 0);
    make(&*store, 1, 21).await;
    for seconds in 22..27 {
        kill(&*store, seconds).await;
    }
    assert_eq!(settle(Verdict::Abandon).await, 5);
    assert_eq!(store.settle_chunks(&[], Verdict::Abandon, at(21)).await.unwrap(), 0);
    for batch in [chunks[0].0, chunks[5].0] {
        assert_eq!(now_is(&*store, batch).await.state, BatchState::Completed);
    }
    assert_eq!(dead(&*store).await, []);
}

/// What was given up was never made, so the tenant may order as much again.
pub async fn what_is_abandoned_is_not_ordered_any_more(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let order = |count| BatchOrder { codes_max: 4 * CHUNK, ..batch_order(id, count) };
    let batch = ordered(&*store, &order(4 * CHUNK)).await;
    kill(&*store, 10).await;
    assert!(settle(&*store, (batch.id, 0), Verdict::Abandon, 11).await);
    let refused = store.order_batch(&order(CHUNK + 1)).await.unwrap();
    assert_eq!(refused, Ordered::OverQuota { ordered: 3 * CHUNK });
    make(&*store, 1, 12).await;
    store.cancel_batch(batch.id, None, at(13)).await.unwrap();
    let refused = store.order_batch(&order(3 * CHUNK + 1)).await.unwrap();
    assert_eq!(refused, Ordered::OverQuota { ordered: CHUNK }, "nothing is taken off twice");
    ordered(&*store, &order(3 * CHUNK)).await;
}

pub async fn only_dead_letters_are_settled(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 4 * CHUNK).await;
    make(&*store, 1, 10).await;
    claimed(&*store, 11).await;
    let failed = claimed(&*store, 12).await;
    store.fail_chunk(&failed, "no room", Some(at(100)), at(13)).await.unwrap();
    let before = now_is(&*store, batch.id).await;
    for verdict in [Verdict::Retry, Verdict::Abandon] {
        for number in [0, 1, 2, 3, 4, u64::MAX] {
            assert!(!settle(&*store, (batch.id, number), verdict, 14).await);
        }
        assert!(!settle(&*store, (BatchId::new(1, 0), 0), verdict, 14).await);
    }
    assert_eq!(now_is(&*store, batch.id).await, before);
    assert_eq!(gaps(&*store, id).await, []);
    let kept: Batch = store.cancel_batch(batch.id, None, at(15)).await.unwrap().unwrap();
    assert_eq!(kept.made, CHUNK);
}
