//! Deliveries that have to arrive in order, and claims that come to nothing.

use storage::{Delivery, Next, Verdict};

use crate::Fixture;
use crate::batch_support::type_of;
use crate::document_support::document;
use crate::outbox_support::{CLAIM_SECONDS, Outbox};
use crate::support::{at, open};

/// The payloads of claimed documents.
fn bodies(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.content.body.as_str()).collect()
}

/// A receiver with documents `a` to `e`, due at different times that are past by 20 seconds.
async fn with_documents(fixture: &dyn Fixture) -> Outbox {
    let outbox = Outbox::open(fixture).await;
    for (payload, seconds) in [("a", 12), ("b", 11), ("c", 14), ("d", 10), ("e", 13)] {
        outbox.add(payload, seconds).await;
    }
    outbox
}

pub async fn documents_are_claimed_in_order_of_creation(fixture: &dyn Fixture) {
    let outbox = with_documents(fixture).await;
    assert_eq!(bodies(&outbox.claim(10, 11).await), ["d", "b"], "otherwise it is the time");
    let outbox = with_documents_of(&outbox, "other").await;
    let claimed = outbox.claim_in_order(10, 20).await;
    assert_eq!(bodies(&claimed), ["a", "b", "c", "d", "e"]);
    assert!(claimed.iter().all(|delivery| delivery.attempt == 1));
    assert_eq!(outbox.claim_in_order(10, 20).await, []);
}

/// Another receiver with documents `a` to `e`.
async fn with_documents_of(outbox: &Outbox, name: &str) -> Outbox {
    let outbox = outbox.with_receiver(name).await;
    for payload in ["a", "b", "c", "d", "e"] {
        outbox.add(payload, 10).await;
    }
    outbox
}

pub async fn what_is_claimed_holds_up_what_follows(fixture: &dyn Fixture) {
    let outbox = with_documents(fixture).await;
    let claimed = outbox.claim_in_order(2, 20).await;
    assert_eq!(bodies(&claimed), ["a", "b"]);
    assert_eq!(outbox.claim_in_order(10, 20).await, []);
    assert!(outbox.settle(&claimed[0], Next::Delivered, 21).await);
    assert_eq!(outbox.claim_in_order(10, 21).await, []);
    assert!(outbox.settle(&claimed[1], Next::Delivered, 22).await);
    assert_eq!(bodies(&outbox.claim_in_order(2, 22).await), ["c", "d"]);
    // A claim that has ended by itself is claimed again, with what follows.
    let later = 22 + CLAIM_SECONDS;
    assert_eq!(bodies(&outbox.claim_in_order(10, later).await), ["c", "d", "e"]);
}

pub async fn what_waits_holds_up_what_follows(fixture: &dyn Fixture) {
    let outbox = with_documents(fixture).await;
    let claimed = outbox.claim_in_order(2, 20).await;
    assert!(outbox.settle(&claimed[1], Next::Delivered, 21).await);
    assert!(outbox.settle(&claimed[0], Next::Retry(at(100)), 21).await);
    assert_eq!(outbox.claim_in_order(10, 99).await, []);
    assert_eq!(bodies(&outbox.claim_in_order(10, 100).await), ["a", "c", "d", "e"]);
}

/// A person has to decide about these, and the others do not wait for that.
pub async fn what_is_dead_or_abandoned_holds_up_nothing(fixture: &dyn Fixture) {
    let outbox = with_documents(fixture).await;
    let claimed = outbox.claim_in_order(2, 20).await;
    assert!(outbox.settle(&claimed[0], Next::Dead, 21).await);
    let store = &outbox.store;
    assert!(store.decide_delivery(claimed[1].id, Verdict::Abandon, at(21)).await.unwrap());
    assert_eq!(bodies(&outbox.claim_in_order(1, 22).await), ["c"]);
    // What is tried again is in its old place.
    assert!(store.decide_delivery(claimed[0].id, Verdict::Retry, at(23)).await.unwrap());
    assert_eq!(bodies(&outbox.claim_in_order(10, 23).await), ["a"], "the third is on its way");
}

pub async fn types_do_not_hold_up_each_other(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    for number in 1..=3 {
        outbox.add(&format!("a{number}"), 10).await;
        other.add(&format!("b{number}"), 10).await;
    }
    let first = outbox.claim_in_order(1, 20).await;
    assert_eq!(bodies(&first), ["a1"]);
    let mut rest = outbox.claim_in_order(10, 20).await;
    assert_eq!(bodies(&rest), ["b1", "b2", "b3"]);
    assert!(outbox.settle(&first[0], Next::Delivered, 21).await);
    assert!(outbox.settle(&rest.remove(1), Next::Retry(at(500)), 21).await);
    assert_eq!(bodies(&outbox.claim_in_order(10, 21).await), ["a2", "a3"]);
    // The second waits, so the third does.
    assert_eq!(bodies(&outbox.claim_in_order(10, 20 + CLAIM_SECONDS).await), ["b1"]);
}

/// A limit cuts off the end of each type, and what has been due for longer comes before the others.
pub async fn a_limit_keeps_the_order(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    for number in 0..20 {
        outbox.add(&format!("a{number}"), number).await;
        if number % 4 == 0 {
            other.add(&format!("b{number}"), number).await;
        }
    }
    assert_eq!(outbox.claim_in_order(0, 20).await, []);
    let mut seen = Vec::new();
    loop {
        let claimed = outbox.claim_in_order(6, 20).await;
        if claimed.is_empty() {
            break;
        }
        assert!(claimed.len() <= 6);
        for delivery in claimed {
            assert!(outbox.settle(&delivery, Next::Delivered, 20).await);
            seen.push(delivery.content.body);
        }
    }
    let of = |prefix: char| -> Vec<u32> {
        let own = seen.iter().filter_map(|body| body.strip_prefix(prefix));
        own.map(|number| number.parse().unwrap()).collect()
    };
    assert_eq!(of('a'), (0..20).collect::<Vec<_>>());
    assert_eq!(of('b'), [0, 4, 8, 12, 16]);
    assert!(seen[..12].iter().any(|body| body == "b4"), "{seen:?}");
}

/// Instances that ask at once: nothing overtakes.
pub async fn claims_at_once_keep_the_order(fixture: &dyn Fixture) {
    const DOCUMENTS: usize = 40;
    let outbox = Outbox::open(fixture).await;
    outbox.count((0..DOCUMENTS).map(|number| document(&number.to_string())), 10).await;
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let outbox = outbox.clone();
            tokio::spawn(async move {
                let mut own = Vec::new();
                for _ in 0..DOCUMENTS {
                    let claimed = outbox.claim_in_order(3, 20).await;
                    assert!(claimed.is_sorted_by_key(|delivery| delivery.id));
                    for delivery in claimed {
                        assert!(outbox.settle(&delivery, Next::Delivered, 20).await);
                        own.push(delivery.id);
                    }
                }
                own
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted(), "{own:?}");
        all.extend(own);
    }
    let delivered = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), delivered, "each once");
    let rest = outbox.claim_in_order(DOCUMENTS, 20).await;
    assert_eq!(rest.len() + delivered, DOCUMENTS);
}

pub async fn the_order_is_that_of_a_receiver(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (own, other) = (Outbox::of(&store, "a").await, Outbox::of(&store, "b").await);
    let second = own.with_receiver("second").await;
    for target in [&own, &second, &other] {
        target.add("1", 10).await;
        target.add("2", 10).await;
    }
    assert_eq!(own.claim_in_order(1, 20).await.len(), 1);
    for target in [&second, &other] {
        assert_eq!(bodies(&target.claim_in_order(10, 20).await), ["1", "2"]);
    }
    let stranger = Outbox { tenant: "b".to_owned(), ..own };
    assert_eq!(stranger.claim_in_order(10, 1000).await, []);
}

/// It was no attempt: the next one is as if this one had not been.
pub async fn what_was_not_tried_is_due_at_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.add("a", 5).await;
    outbox.bring(Next::Retry(at(20)), 10).await;
    let before = outbox.look(outbox.list().await[0].id).await;
    let claimed = outbox.claim_one(30).await;
    assert_eq!(claimed.attempt, 2);
    assert!(outbox.settle(&claimed, Next::Untried, 40).await);
    let outbox = outbox.crash(fixture).await;
    let (record, log) = outbox.look(claimed.id).await;
    assert_eq!((record.attempts, record.due_at), (1, Some(at(40))));
    assert_eq!((&record.last, &log), (&before.0.last, &before.1), "nothing is logged");
    for next in [Next::Untried, Next::Delivered] {
        assert!(!outbox.settle(&claimed, next, 41).await, "that claim is over");
    }
    let again = outbox.claim_one(40).await;
    assert!(again.token > claimed.token);
    assert_eq!(again, Delivery { token: again.token, ..claimed });
}
