//! Claims whose answer never arrived: whoever asks has nothing under way.

use storage::{BatchState, Chunk, Store, always};

use crate::Fixture;
use crate::batch_support::{
    ATTEMPTS_MAX, CHUNK, SILENT_SECONDS, claim, claim_as, now_is, stored, type_of,
};
use crate::support::{LEASE, ME, SUCCESSOR, at, crash, new_sequence, open};

/// What the first worker of [`ME`] is given.
async fn ask(store: &dyn Store, seconds: i64) -> Chunk {
    claim_as(store, (ME, 0), seconds).await.expect("a chunk waits")
}

/// Asks again, and expects the same chunk once more as the same attempt.
async fn ask_again(store: &dyn Store, lost: &Chunk, seconds: i64) -> Chunk {
    let again = ask(store, seconds).await;
    assert!(again.token > lost.token);
    assert_eq!(again, Chunk { token: again.token, ..lost.clone() });
    again
}

pub async fn a_worker_that_asks_again_gets_the_same_chunk(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 3 * CHUNK).await;
    let lost = ask(&*store, 10).await;
    let again = ask_again(&*store, &lost, 11).await;
    assert!(!store.finish_chunk(&lost, always(at(12))).await.unwrap(), "that claim is over");
    assert!(!store.fail_chunk(&lost, "late", None, at(12)).await.unwrap());
    assert!(!store.fail_chunk(&lost, "late", Some(at(12)), at(12)).await.unwrap());
    assert!(store.finish_chunk(&again, always(at(12))).await.unwrap());
    assert_eq!(ask(&*store, 13).await.number, 1, "what is done does not come back");
    assert_eq!(now_is(&*store, batch.id).await.made, CHUNK);
}

/// The network is to blame, not the chunk.
pub async fn lost_claims_use_up_no_attempts(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, CHUNK).await;
    let mut chunk = ask(&*store, 10).await;
    for seconds in 11..15 + i64::from(ATTEMPTS_MAX) {
        chunk = ask_again(&*store, &chunk, seconds).await;
    }
    // However long the worker was silent.
    let seconds = 100 + 2 * SILENT_SECONDS;
    chunk = ask_again(&*store, &chunk, seconds).await;
    assert_eq!(claim(&*store, seconds + SILENT_SECONDS - 1).await, None, "it is new again");
    assert!(store.finish_chunk(&chunk, always(at(seconds))).await.unwrap());
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::Completed);
}

pub async fn a_lost_claim_is_that_of_one_worker(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 4 * CHUNK).await;
    let lost = ask(&*store, 10).await;
    for (worker, number) in [((ME, 1), 1), (("another", 0), 2)] {
        let chunk = claim_as(&*store, worker, 11).await.unwrap();
        assert_eq!((chunk.number, chunk.attempt), (number, 1));
    }
    ask_again(&*store, &lost, 12).await;
    assert_eq!(claim_as(&*store, (ME, 1), 13).await.unwrap().number, 1);
}

/// Tenants may be kept in different places, and all of them are asked first.
pub async fn a_lost_claim_comes_before_the_turns_of_others(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for tenant in ["a", "b", "c"] {
        let id = type_of(&*store, tenant, "code").await;
        stored(&*store, id, 4 * CHUNK).await;
    }
    for seconds in 10..16 {
        let lost = ask(&*store, seconds).await;
        claim(&*store, seconds).await.unwrap();
        let again = ask_again(&*store, &lost, seconds).await;
        assert!(store.finish_chunk(&again, always(at(seconds))).await.unwrap());
    }
}

pub async fn what_a_worker_has_failed_at_is_not_lost(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 3 * CHUNK).await;
    let failed = ask(&*store, 10).await;
    assert!(store.fail_chunk(&failed, "no room", Some(at(20)), at(10)).await.unwrap());
    let killed = ask(&*store, 11).await;
    assert_eq!(killed.number, 1);
    assert!(store.fail_chunk(&killed, "on purpose", None, at(11)).await.unwrap());
    let last = ask(&*store, 12).await;
    assert_eq!(last.number, 2);
    assert!(store.finish_chunk(&last, always(at(12))).await.unwrap());
    assert_eq!(claim_as(&*store, (ME, 0), 19).await, None);
    let again = ask(&*store, 20).await;
    assert_eq!((again.number, again.attempt), (0, 2));
}

pub async fn what_another_worker_has_taken_over_does_not_come_back(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    let lost = ask(&*store, 10).await;
    let seconds = 10 + SILENT_SECONDS + 1;
    let taken = claim(&*store, seconds).await.unwrap();
    assert_eq!((taken.number, taken.attempt), (lost.number, 2));
    assert_eq!(ask(&*store, seconds).await.number, 1);
    store.cancel_batch(batch.id, None, at(seconds)).await.unwrap();
    assert_eq!(claim_as(&*store, (ME, 0), seconds).await, None, "nor does what was cancelled");
}

/// As long as nobody has taken it over, a chunk is with the worker that was silent.
pub async fn a_silent_claim_can_still_be_a_lost_one(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, 2 * CHUNK).await;
    let seconds = 10 + SILENT_SECONDS + 1;
    let first = claim(&*store, 10).await.unwrap();
    let lost = ask(&*store, 10).await;
    assert!(store.fail_chunk(&first, "no room", Some(at(seconds)), at(11)).await.unwrap());
    assert_eq!(claim(&*store, seconds).await.unwrap().number, first.number);
    let again = ask_again(&*store, &lost, seconds).await;
    assert!(store.finish_chunk(&again, always(at(seconds))).await.unwrap());
}

/// Whoever was taken for gone has to stand in line like everybody else.
pub async fn a_claim_that_was_released_is_not_a_lost_one(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    stored(&*store, id, CHUNK).await;
    let lost = ask(&*store, 10).await;
    let store = crash(fixture, store).await;
    store.join(SUCCESSOR, LEASE).await.unwrap();
    assert_eq!(store.release_lost_chunks(SUCCESSOR).await.unwrap(), 1);
    let again = ask(&*store, 11).await;
    assert!(again.token > lost.token);
    assert_eq!(again, Chunk { attempt: 2, token: again.token, ..lost });
}
