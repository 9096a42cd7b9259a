//! Chunks that instances which are gone had claimed.

use storage::{BatchState, Chunk, Store, always};

use crate::Fixture;
use crate::batch_support::{
    ATTEMPTS_MAX, CHUNK, claim, claim_as, claimed, dead, make, now_is, stored,
};
use crate::support::{LEASE, ME, SUCCESSOR, at, crash, new_sequence, open};

async fn claimed_as(store: &dyn Store, worker: (&str, u32), seconds: i64) -> Chunk {
    claim_as(store, worker, seconds).await.expect("a chunk waits")
}

pub async fn what_an_instance_had_claimed_is_free_without_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 4 * CHUNK).await;
    let done = claimed_as(&*store, (ME, 0), 10).await;
    assert!(store.finish_chunk(&done, always(at(10))).await.unwrap());
    let failed = claimed_as(&*store, (ME, 0), 10).await;
    assert!(store.fail_chunk(&failed, "no room", Some(at(50)), at(10)).await.unwrap());
    let lost = [claimed_as(&*store, (ME, 0), 10).await, claimed_as(&*store, (ME, 1), 10).await];
    let store = crash(fixture, store).await;
    assert_eq!(claim(&*store, 11).await, None);
    store.join(SUCCESSOR, LEASE).await.unwrap();
    assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 2);
    assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 0);
    for old in lost {
        assert!(!store.finish_chunk(&old, always(at(12))).await.unwrap());
        let chunk = claimed_as(&*store, (SUCCESSOR, 0), 12).await;
        assert!(chunk.token > old.token);
        assert_eq!(chunk, Chunk { attempt: 2, token: chunk.token, ..old.clone() });
        assert!(!store.finish_chunk(&old, always(at(13))).await.unwrap());
        assert!(store.finish_chunk(&chunk, always(at(13))).await.unwrap());
    }
    assert_eq!(claim(&*store, 49).await, None, "what has failed waits for its time");
    make(&*store, 1, 50).await;
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::Completed, 4 * CHUNK));
}

pub async fn the_own_claims_of_an_instance_are_not_lost(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 2 * CHUNK).await;
    assert_eq!(store.release_lost_chunks(ME).await.unwrap(), 0);
    let chunks = [claimed_as(&*store, (ME, 0), 10).await, claimed_as(&*store, (ME, 1), 10).await];
    assert_eq!(store.release_lost_chunks(ME).await.unwrap(), 0);
    for chunk in chunks {
        assert!(store.finish_chunk(&chunk, always(at(11))).await.unwrap());
    }
}

/// Where several instances may live, only those without a lease are gone.
pub async fn what_another_instance_has_claimed_is_free_only_without_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 2 * CHUNK).await;
    let living = claimed_as(&*store, (ME, 0), 10).await;
    let gone = claimed_as(&*store, ("somebody else", 0), 10).await;
    store.join(SUCCESSOR, LEASE).await.unwrap();
    let released = store.release_lost_chunks(SUCCESSOR).await.unwrap();
    if fixture.many_instances() {
        assert_eq!(released, 1);
        assert_eq!(claimed_as(&*store, (SUCCESSOR, 0), 11).await.number, gone.number);
        assert!(store.finish_chunk(&living, always(at(11))).await.unwrap());
    } else {
        assert_eq!(released, 2);
        assert_eq!(claimed_as(&*store, (SUCCESSOR, 0), 11).await.number, living.number);
        assert_eq!(claimed_as(&*store, (SUCCESSOR, 1), 11).await.number, gone.number);
    }
    assert_eq!(claim(&*store, 12).await, None);
}

/// An instance that dies of a chunk dies of it only so often.
pub async fn a_chunk_that_was_lost_too_often_is_a_dead_letter(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    for attempt in 1..=ATTEMPTS_MAX {
        let run = format!("run {attempt}");
        store.join(&run, LEASE).await.unwrap();
        let chunk = claimed_as(&*store, (&run, 0), 10).await;
        assert_eq!((chunk.number, chunk.attempt), (0, attempt));
        store = crash(fixture, store).await;
        store.join(SUCCESSOR, LEASE).await.unwrap();
        assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 1);
    }
    assert_eq!(dead(&*store).await, [], "nobody has asked for it");
    assert_eq!(claimed(&*store, 20).await.number, 1);
    let letters = dead(&*store).await;
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].batch, letters[0].number), (batch.id, 0));
    assert_eq!((letters[0].attempts, letters[0].died_at), (ATTEMPTS_MAX, at(20)));
    assert!(!letters[0].error.is_empty());
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.dead_chunks), (BatchState::NeedsAttention, 1));
    assert_eq!(now.error.as_ref(), Some(&letters[0].error));
}
