//! Who may answer a request that was claimed.

use storage::{Answer, AnswerClaim, AnswerKey, Claimant, Store, StoreError};

use crate::Fixture;
use crate::support::{LEASE, ME, SUCCESSOR, at, close_lost, crash, open};

const BODY: [u8; 32] = [1; 32];

fn key() -> AnswerKey {
    AnswerKey { scope: "key 7 POST /ids".to_owned(), key: "a".to_owned() }
}

fn by(instance: &str, number: i64) -> Claimant {
    Claimant { instance: instance.to_owned(), number }
}

fn answer(text: &str) -> Answer {
    Answer { status: 201, body: text.as_bytes().to_vec() }
}

/// Claims as somebody who takes claims older than a minute for stale.
async fn claim(store: &dyn Store, claimant: &Claimant, seconds: i64) -> AnswerClaim {
    store.claim_answer(&key(), &BODY, claimant, at(seconds), at(seconds - 60)).await.unwrap()
}

/// Neither keeps nor releases what another has claimed.
async fn refuse(store: &dyn Store, claimant: &Claimant, text: &str) {
    let refused = store.keep_answer(&key(), claimant, &answer(text), at(1000)).await;
    assert!(matches!(refused, Err(StoreError::NotFound("claim"))), "{claimant:?}: {refused:?}");
    store.release_answer(&key(), claimant).await.unwrap();
}

pub async fn only_the_claimant_keeps_or_releases(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let owner = by(ME, 1);
    assert_eq!(claim(&*store, &owner, 0).await, AnswerClaim::New);
    for other in [by(ME, 2), by(SUCCESSOR, 1), by("", 0)] {
        refuse(&*store, &other, "of another").await;
    }
    assert_eq!(claim(&*store, &by(ME, 3), 1).await, AnswerClaim::InFlight);
    store.keep_answer(&key(), &owner, &answer("one"), at(1000)).await.unwrap();
    for other in [by(ME, 2), by(SUCCESSOR, 1)] {
        refuse(&*store, &other, "one").await;
    }
    store.keep_answer(&key(), &owner, &answer("one"), at(1000)).await.unwrap();
    let kept = AnswerClaim::Answered(answer("one"));
    assert_eq!(claim(&*store, &by(ME, 4), 2).await, kept);
}

/// The one who was too slow must not answer, because another has begun to do the work again.
pub async fn a_claim_that_was_taken_over_is_lost_to_its_first_owner(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (slow, next) = (by(ME, 1), by(ME, 2));
    assert_eq!(claim(&*store, &slow, 0).await, AnswerClaim::New);
    assert_eq!(claim(&*store, &next, 61).await, AnswerClaim::New);
    refuse(&*store, &slow, "too late").await;
    assert_eq!(claim(&*store, &by(ME, 3), 62).await, AnswerClaim::InFlight);
    store.keep_answer(&key(), &next, &answer("two"), at(1000)).await.unwrap();
    refuse(&*store, &slow, "two").await;
    let kept = AnswerClaim::Answered(answer("two"));
    assert_eq!(claim(&*store, &by(ME, 4), 63).await, kept);
}

pub async fn the_claim_of_an_instance_that_is_gone_is_taken_over(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let gone = by(ME, 7);
    assert_eq!(claim(&*store, &gone, 0).await, AnswerClaim::New);
    let store = crash(fixture, store).await;
    close_lost(&*store, SUCCESSOR, 1).await;
    // The numbers of different instances mean nothing to each other.
    let next = by(SUCCESSOR, 7);
    assert_eq!(claim(&*store, &next, 2).await, AnswerClaim::New);
    assert_eq!(claim(&*store, &by(SUCCESSOR, 8), 3).await, AnswerClaim::InFlight);
    refuse(&*store, &gone, "of the dead").await;
    store.keep_answer(&key(), &next, &answer("two"), at(1000)).await.unwrap();
    let kept = AnswerClaim::Answered(answer("two"));
    assert_eq!(claim(&*store, &by(SUCCESSOR, 9), 4).await, kept);
}

/// An answer belongs to nobody: it outlives whoever gave it.
pub async fn an_answer_outlives_its_instance(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, &by(ME, 1), 0).await;
    store.keep_answer(&key(), &by(ME, 1), &answer("one"), at(1000)).await.unwrap();
    let store = crash(fixture, store).await;
    close_lost(&*store, SUCCESSOR, 1).await;
    let kept = AnswerClaim::Answered(answer("one"));
    assert_eq!(claim(&*store, &by(SUCCESSOR, 1), 999).await, kept);
    refuse(&*store, &by(SUCCESSOR, 1), "two").await;
    assert_eq!(claim(&*store, &by(SUCCESSOR, 2), 1000).await, AnswerClaim::New);
}

/// Where several instances may live, the claim of a living one counts. A store with one instance
/// takes every other one to be gone.
pub async fn the_claim_of_another_instance_counts_while_it_lives(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.join(SUCCESSOR, LEASE).await.unwrap();
    assert_eq!(claim(&*store, &by(ME, 1), 0).await, AnswerClaim::New);
    let claimed = claim(&*store, &by(SUCCESSOR, 1), 1).await;
    if fixture.many_instances() {
        assert_eq!(claimed, AnswerClaim::InFlight);
        assert_eq!(claim(&*store, &by(SUCCESSOR, 2), 61).await, AnswerClaim::New, "it is stale");
        refuse(&*store, &by(ME, 1), "too late").await;
    } else {
        assert_eq!(claimed, AnswerClaim::New);
        refuse(&*store, &by(ME, 1), "of the dead").await;
    }
}
