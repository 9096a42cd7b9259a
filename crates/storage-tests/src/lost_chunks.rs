//! Chunks that instances which are gone had claimed.

use storage::{BatchState, Chunk, Store};

use crate::Fixture;
use crate::batch_support::{CHUNK, claim, make, now_is, stored, terms};
use crate::support::{LEASE, ME, SUCCESSOR, at, crash, new_sequence, open};

async fn claim_as(store: &dyn Store, worker: &str, seconds: i64) -> Chunk {
    store.claim_chunk(worker, terms(seconds)).await.unwrap().expect("a chunk waits")
}

pub async fn what_an_instance_had_claimed_is_free_without_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 4 * CHUNK).await;
    let done = claim_as(&*store, ME, 10).await;
    assert!(store.finish_chunk(&done, at(10)).await.unwrap());
    let failed = claim_as(&*store, ME, 10).await;
    assert!(store.fail_chunk(&failed, "no room", Some(at(50)), at(10)).await.unwrap());
    let lost = [claim_as(&*store, ME, 10).await, claim_as(&*store, ME, 10).await];
    let store = crash(fixture, store).await;
    assert_eq!(claim(&*store, 11).await, None);
    store.join(SUCCESSOR, LEASE).await.unwrap();
    assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 2);
    assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 0);
    for old in lost {
        let chunk = claim_as(&*store, SUCCESSOR, 12).await;
        assert!(chunk.token > old.token);
        assert_eq!(chunk, Chunk { attempt: 2, token: chunk.token, ..old.clone() });
        assert!(!store.finish_chunk(&old, at(13)).await.unwrap());
        assert!(store.finish_chunk(&chunk, at(13)).await.unwrap());
    }
    assert_eq!(claim(&*store, 49).await, None, "what has failed waits for its time");
    make(&*store, 1, 50).await;
    let now = now_is(&*store, batch.id).await;
    assert_eq!((now.state, now.made), (BatchState::Completed, 4 * CHUNK));
}

pub async fn the_own_claims_of_an_instance_are_not_lost(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, CHUNK).await;
    assert_eq!(store.release_lost_chunks(ME).await.unwrap(), 0);
    let chunk = claim_as(&*store, ME, 10).await;
    assert_eq!(store.release_lost_chunks(ME).await.unwrap(), 0);
    assert!(store.finish_chunk(&chunk, at(11)).await.unwrap());
}

/// Where several instances may live, only those without a lease are gone.
pub async fn what_another_instance_has_claimed_is_free_only_without_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 2 * CHUNK).await;
    let living = claim_as(&*store, ME, 10).await;
    let gone = claim_as(&*store, "somebody else", 10).await;
    store.join(SUCCESSOR, LEASE).await.unwrap();
    let released = store.release_lost_chunks(SUCCESSOR).await.unwrap();
    if fixture.many_instances() {
        assert_eq!(released, 1);
        assert_eq!(claim_as(&*store, SUCCESSOR, 11).await.number, gone.number);
        assert!(store.finish_chunk(&living, at(11)).await.unwrap());
    } else {
        assert_eq!(released, 2);
        assert_eq!(claim_as(&*store, SUCCESSOR, 11).await.number, living.number);
        assert_eq!(claim_as(&*store, SUCCESSOR, 11).await.number, gone.number);
    }
    assert_eq!(claim(&*store, 12).await, None);
}
