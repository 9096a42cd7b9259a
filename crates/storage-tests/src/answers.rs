//! Answers to requests with an idempotency key.

use std::sync::Arc;

use storage::{Answer, AnswerClaim, AnswerKey, Claimant, Store, StoreError};

use crate::Fixture;
use crate::support::{LEASE, ME, at, open, reopen};

const BODY: [u8; 32] = [1; 32];
const OTHER_BODY: [u8; 32] = [2; 32];

fn key(name: &str) -> AnswerKey {
    AnswerKey { scope: "key 7 POST /ids".to_owned(), key: name.to_owned() }
}

fn answer(text: &str) -> Answer {
    Answer { status: 201, body: text.as_bytes().to_vec() }
}

/// One of the requests that this instance works on.
fn mine(number: i64) -> Claimant {
    Claimant { instance: ME.to_owned(), number }
}

/// Claims for a request that came after so many seconds, which is also its number, and takes claims
/// older than a minute for stale.
async fn claim(store: &dyn Store, name: &str, body: &[u8; 32], seconds: i64) -> AnswerClaim {
    store
        .claim_answer(&key(name), body, &mine(seconds), at(seconds), at(seconds - 60))
        .await
        .unwrap()
}

/// Keeps the answer to a request that came after so many seconds.
async fn keep(store: &dyn Store, name: &str, seconds: i64, text: &str, expires: i64) {
    store.keep_answer(&key(name), &mine(seconds), &answer(text), at(expires)).await.unwrap();
}

/// Opens the store again and goes on as the same instance.
async fn go_on(fixture: &dyn Fixture, store: Arc<dyn Store>) -> Arc<dyn Store> {
    let store = reopen(fixture, store).await;
    store.join(ME, LEASE).await.unwrap();
    store
}

pub async fn a_claim_is_new_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    assert_eq!(claim(&*store, "a", &BODY, 0).await, AnswerClaim::New);
    assert_eq!(claim(&*store, "a", &BODY, 1).await, AnswerClaim::InFlight);
    assert_eq!(claim(&*store, "b", &BODY, 1).await, AnswerClaim::New);
    let store = go_on(fixture, store).await;
    assert_eq!(claim(&*store, "a", &BODY, 2).await, AnswerClaim::InFlight);
}

pub async fn a_claim_with_another_body_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, "a", &BODY, 0).await;
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 1).await, AnswerClaim::OtherBody);
    keep(&*store, "a", 0, "one", 1000).await;
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 2).await, AnswerClaim::OtherBody);
    assert_eq!(claim(&*store, "a", &BODY, 2).await, AnswerClaim::Answered(answer("one")));
}

pub async fn a_kept_answer_comes_back_after_reopening(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let bodies = [vec![], b"\0\xff".to_vec(), vec![7; 300_000]];
    for (number, body) in bodies.iter().enumerate() {
        let name = number.to_string();
        claim(&*store, &name, &BODY, 0).await;
        let answer = Answer { status: 599, body: body.clone() };
        store.keep_answer(&key(&name), &mine(0), &answer, at(1000)).await.unwrap();
    }
    let store = reopen(fixture, store).await;
    for (number, body) in bodies.into_iter().enumerate() {
        let expected = AnswerClaim::Answered(Answer { status: 599, body });
        assert_eq!(claim(&*store, &number.to_string(), &BODY, 999).await, expected);
    }
}

pub async fn an_expired_answer_counts_as_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, "a", &BODY, 0).await;
    keep(&*store, "a", 0, "one", 100).await;
    assert_eq!(claim(&*store, "a", &BODY, 99).await, AnswerClaim::Answered(answer("one")));
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 100).await, AnswerClaim::New);
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 101).await, AnswerClaim::InFlight);
    keep(&*store, "a", 100, "two", 200).await;
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 199).await, AnswerClaim::Answered(answer("two")));
}

pub async fn a_stale_claim_is_taken_over(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, "a", &BODY, 0).await;
    assert_eq!(claim(&*store, "a", &BODY, 60).await, AnswerClaim::InFlight);
    assert_eq!(claim(&*store, "a", &BODY, 61).await, AnswerClaim::New);
    assert_eq!(claim(&*store, "a", &BODY, 62).await, AnswerClaim::InFlight);
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 122).await, AnswerClaim::New);
}

pub async fn a_released_claim_is_new_again(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, "a", &BODY, 0).await;
    claim(&*store, "b", &BODY, 0).await;
    store.release_answer(&key("a"), &mine(0)).await.unwrap();
    store.release_answer(&key("a"), &mine(0)).await.unwrap();
    assert_eq!(claim(&*store, "a", &OTHER_BODY, 1).await, AnswerClaim::New);
    assert_eq!(claim(&*store, "b", &BODY, 1).await, AnswerClaim::InFlight);
}

pub async fn an_answer_is_never_released_or_replaced(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let unclaimed = store.keep_answer(&key("a"), &mine(0), &answer("one"), at(100)).await;
    assert!(matches!(unclaimed, Err(StoreError::NotFound("claim"))), "{unclaimed:?}");
    claim(&*store, "a", &BODY, 0).await;
    for _ in 0..2 {
        // The second time is a retry.
        store.keep_answer(&key("a"), &mine(0), &answer("one"), at(100)).await.unwrap();
    }
    store.release_answer(&key("a"), &mine(0)).await.unwrap();
    let replaced = store.keep_answer(&key("a"), &mine(0), &answer("two"), at(100)).await;
    assert!(matches!(replaced, Err(StoreError::NotFound("claim"))), "{replaced:?}");
    assert_eq!(claim(&*store, "a", &BODY, 1).await, AnswerClaim::Answered(answer("one")));
}

pub async fn keys_of_different_scopes_do_not_meet(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for (scope, name) in [("a", "bc"), ("ab", "c"), ("a", "c"), ("", "abc")] {
        let key = AnswerKey { scope: scope.to_owned(), key: name.to_owned() };
        let claimed = store.claim_answer(&key, &BODY, &mine(0), at(0), at(-60)).await.unwrap();
        assert_eq!(claimed, AnswerClaim::New, "{key:?}");
    }
}

pub async fn purging_forgets_what_has_expired_up_to_the_limit(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for number in 0..10 {
        let name = number.to_string();
        claim(&*store, &name, &BODY, 0).await;
        keep(&*store, &name, 0, "one", 100 + number).await;
    }
    claim(&*store, "in flight", &BODY, 0).await;
    assert_eq!(store.purge_answers(at(99), 100).await.unwrap(), 0);
    assert_eq!(store.purge_answers(at(105), 4).await.unwrap(), 4);
    assert_eq!(store.purge_answers(at(105), 4).await.unwrap(), 2);
    assert_eq!(store.purge_answers(at(105), 4).await.unwrap(), 0);
    let store = go_on(fixture, store).await;
    assert_eq!(claim(&*store, "6", &BODY, 50).await, AnswerClaim::Answered(answer("one")));
    assert_eq!(claim(&*store, "5", &BODY, 50).await, AnswerClaim::New);
    assert_eq!(claim(&*store, "in flight", &BODY, 50).await, AnswerClaim::InFlight);
}

pub async fn purging_forgets_claims_of_yesterday(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    claim(&*store, "a", &BODY, 0).await;
    assert_eq!(store.purge_answers(at(86_399), 10).await.unwrap(), 0);
    assert_eq!(store.purge_answers(at(86_400), 10).await.unwrap(), 1);
    assert_eq!(store.purge_answers(at(86_400), 10).await.unwrap(), 0);
}

pub async fn two_claims_at_once_give_one_new(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for round in 0..20 {
        let tasks = [0, 1, 2, 3].map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { claim(&*store, &round.to_string(), &BODY, number).await })
        });
        let mut new = 0;
        for task in tasks {
            match task.await.unwrap() {
                AnswerClaim::New => new += 1,
                other => assert_eq!(other, AnswerClaim::InFlight),
            }
        }
        assert_eq!(new, 1);
    }
}
