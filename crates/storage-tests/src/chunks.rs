//! Chunks: who claims which, and what becomes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage::{Batch, BatchOrder, BatchState, Chunk, always};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, SILENT_SECONDS, batch_order, claim, claim_as, claimed, make, now_is, ordered, stored,
    terms, type_of, worker,
};
use crate::support::{ME, at, crash, draw, gaps, new_sequence, open};

pub async fn claims_go_through_the_chunks_in_order(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    draw(&*store, id, 5).await;
    assert_eq!(claim(&*store, 9).await, None);
    let (first, second) = (stored(&*store, id, 25).await, stored(&*store, id, 10).await);
    let mut claims = Vec::new();
    while let Some(chunk) = claim(&*store, 10).await {
        assert_eq!((chunk.type_id, chunk.attempt), (id, 1));
        claims.push((chunk.batch, chunk.number, chunk.serials, chunk.position));
        assert!(claims.len() <= 4, "{claims:?}");
    }
    let expected = [
        (first.id, 0, 5..15, 0),
        (first.id, 1, 15..25, 10),
        (first.id, 2, 25..30, 20),
        (second.id, 0, 30..40, 0),
    ];
    assert_eq!(claims, expected);
}

pub async fn a_batch_runs_from_the_first_claim_on(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let (batch, other) = (stored(&*store, id, 25).await, stored(&*store, id, 10).await);
    for seconds in [10, 11] {
        claimed(&*store, seconds).await;
        let (state, started_at) = (BatchState::Running, Some(at(10)));
        assert_eq!(now_is(&*store, batch.id).await, Batch { state, started_at, ..batch.clone() });
    }
    assert_eq!(now_is(&*store, other.id).await, other);
}

pub async fn the_last_chunk_completes_its_batch(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 25).await;
    let chunks =
        [claimed(&*store, 10).await, claimed(&*store, 10).await, claimed(&*store, 10).await];
    for (number, made) in [(2, 5), (0, 15)] {
        assert!(store.finish_chunk(&chunks[number], always(at(11))).await.unwrap());
        let now = now_is(&*store, batch.id).await;
        assert_eq!((now.state, now.made, now.finished_at), (BatchState::Running, made, None));
    }
    assert!(store.finish_chunk(&chunks[1], always(at(12))).await.unwrap());
    let store = crash(fixture, store).await;
    let complete = Batch {
        state: BatchState::Completed,
        made: 25,
        started_at: Some(at(10)),
        finished_at: Some(at(12)),
        ..batch
    };
    assert_eq!(now_is(&*store, complete.id).await, complete);
    assert_eq!(claim(&*store, 10_000).await, None);
    assert_eq!(gaps(&*store, id).await, []);
}

pub async fn finishing_twice_changes_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 20).await;
    for _ in 0..2 {
        let chunk = claimed(&*store, 10).await;
        assert!(store.finish_chunk(&chunk, always(at(11))).await.unwrap());
        let before = now_is(&*store, batch.id).await;
        assert!(!store.finish_chunk(&chunk, always(at(12))).await.unwrap());
        assert!(!store.fail_chunk(&chunk, "late", None, at(12)).await.unwrap());
        assert!(!store.fail_chunk(&chunk, "late", Some(at(13)), at(12)).await.unwrap());
        assert_eq!(now_is(&*store, batch.id).await, before);
    }
    assert_eq!(now_is(&*store, batch.id).await.made, 20);
}

pub async fn workers_at_once_make_every_chunk_once(fixture: &dyn Fixture) {
    const CHUNKS: u64 = 60;
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK * CHUNKS - 3).await;
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut numbers = Vec::new();
                while let Some(chunk) = claim_as(&*store, (ME, worker), 10).await {
                    assert!(store.finish_chunk(&chunk, always(at(11))).await.unwrap());
                    numbers.push(chunk.number);
                }
                numbers
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for worker in workers {
        numbers.extend(worker.await.unwrap());
    }
    assert_eq!(numbers.len() as u64, CHUNKS);
    assert_eq!(numbers.into_iter().collect::<BTreeSet<_>>(), (0..CHUNKS).collect());
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::Completed, batch.count()));
}

pub async fn claims_at_once_never_give_the_same_chunk(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for tenant in ["a", "b"] {
        let id = type_of(&*store, tenant, "code").await;
        stored(&*store, id, 20 * CHUNK).await;
    }
    let claims: Vec<_> = (0..40)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { claim(&*store, 10).await })
        })
        .collect();
    let mut chunks: Vec<Chunk> = Vec::new();
    for claim in claims {
        chunks.extend(claim.await.unwrap());
    }
    // A claim may find that others are about to take what it sees.
    while let Some(chunk) = claim(&*store, 10).await {
        chunks.push(chunk);
    }
    let different: BTreeSet<_> = chunks.iter().map(|chunk| (chunk.batch, chunk.number)).collect();
    assert_eq!((chunks.len(), different.len()), (40, 40));
}

/// A big order does not hold up those of others.
pub async fn tenants_take_turns(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (type_of(&*store, "a", "code").await, type_of(&*store, "b", "code").await);
    let second_of_a = type_of(&*store, "a", "second").await;
    let order =
        |type_id, count, seconds| BatchOrder { now: at(seconds), ..batch_order(type_id, count) };
    ordered(&*store, &order(a, 4 * CHUNK, 1)).await;
    ordered(&*store, &order(second_of_a, CHUNK, 2)).await;
    let mut turns = Vec::new();
    for seconds in 10..12 {
        turns.push(claimed(&*store, seconds).await.type_id);
    }
    ordered(&*store, &order(b, 3 * CHUNK, 3)).await;
    for seconds in 12..18 {
        turns.push(claimed(&*store, seconds).await.type_id);
    }
    assert_eq!(turns, [a, a, b, a, b, a, b, second_of_a]);
    assert_eq!(claim(&*store, 18).await, None);
}

/// Where somebody else says whose turn it is. What was lost on the way comes first all the same.
pub async fn a_claim_can_be_for_one_tenant(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (type_of(&*store, "a", "code").await, type_of(&*store, "b", "code").await);
    stored(&*store, a, 3 * CHUNK).await;
    stored(&*store, b, CHUNK).await;
    let claim = async |number, tenant| {
        let worker = worker("workers", number);
        store.claim_chunk(&worker, tenant, terms(10)).await.unwrap()
    };
    assert_eq!(claim(0, Some("nobody")).await, None);
    let lost = claim(1, Some("b")).await.unwrap();
    assert_eq!(lost.type_id, b);
    assert_eq!(claim(2, Some("b")).await, None, "it has no more");
    for (worker, number) in [(2, 0), (3, 1)] {
        let chunk = claim(worker, Some("a")).await.unwrap();
        assert_eq!((chunk.type_id, chunk.number), (a, number));
    }
    let again = claim(1, Some("a")).await.unwrap();
    assert_eq!((again.batch, again.number, again.attempt), (lost.batch, lost.number, 1));
    assert_eq!(claim(4, None).await.unwrap().number, 2);
}

pub async fn a_silent_worker_loses_its_chunk(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK).await;
    let lost = claimed(&*store, 10).await;
    assert_eq!(claim(&*store, 10 + SILENT_SECONDS - 1).await, None);
    let store = crash(fixture, store).await;
    let seconds = 10 + SILENT_SECONDS + 1;
    let taken = claimed(&*store, seconds).await;
    assert!(taken.token > lost.token);
    assert_eq!(taken, Chunk { attempt: 2, token: taken.token, ..lost.clone() });
    let before = now_is(&*store, batch.id).await;
    assert!(!store.finish_chunk(&lost, always(at(seconds))).await.unwrap());
    assert!(!store.fail_chunk(&lost, "late", None, at(seconds)).await.unwrap());
    assert!(!store.fail_chunk(&lost, "late", Some(at(1)), at(seconds)).await.unwrap());
    assert_eq!(now_is(&*store, batch.id).await, before);
    assert_eq!(claim(&*store, seconds).await, None);
    assert!(store.finish_chunk(&taken, always(at(seconds))).await.unwrap());
    assert!(!store.finish_chunk(&lost, always(at(seconds))).await.unwrap());
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::Completed, CHUNK));
}

/// Whoever was slow has still done the work, if nobody else has begun it.
pub async fn a_worker_that_nobody_missed_finishes_late(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK).await;
    let chunk = claimed(&*store, 10).await;
    assert!(store.finish_chunk(&chunk, always(at(10 + 2 * SILENT_SECONDS))).await.unwrap());
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::Completed);
}

pub async fn a_failed_chunk_waits_for_its_time(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    let failed = claimed(&*store, 10).await;
    assert!(store.fail_chunk(&failed, "no room", Some(at(20)), at(11)).await.unwrap());
    assert!(!store.finish_chunk(&failed, always(at(12))).await.unwrap(), "that claim is over");
    assert!(!store.fail_chunk(&failed, "again", None, at(12)).await.unwrap());
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made, now.dead_chunks), (BatchState::Running, 0, 0));
    assert_eq!(now.error.as_deref(), Some("no room"));
    assert_eq!(claimed(&*store, 13).await.number, 1, "the others go on");
    assert_eq!(claim(&*store, 19).await, None);
    let again = claimed(&*store, 20).await;
    assert!(again.token > failed.token);
    assert_eq!(again, Chunk { attempt: 2, token: again.token, ..failed });
    assert!(store.fail_chunk(&again, "still none", Some(at(30)), at(21)).await.unwrap());
    assert_eq!(now_is(&*store, batch.id).await.error.as_deref(), Some("still none"));
    assert_eq!(claimed(&*store, 31).await.attempt, 3);
}

pub async fn the_chunks_of_a_retired_type_go_on(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    store.remove_type(id).await.unwrap();
    make(&*store, 2, 10).await;
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::Completed);
}
