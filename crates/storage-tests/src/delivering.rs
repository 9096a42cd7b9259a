//! Claims on deliveries.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage::{Delivery, DeliveryState, Next, Wanted};

use crate::Fixture;
use crate::outbox_support::{CLAIM_SECONDS, Outbox, claim, keys};
use crate::support::{at, open};

pub async fn what_is_due_is_claimed(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 10).await;
    assert_eq!(outbox.claim(10, 9).await, []);
    let claimed = outbox.claim_one(10).await;
    let record = outbox.list().await.remove(0);
    let expected = Delivery {
        id: record.id,
        content: outbox.message("a"),
        document: None,
        attempt: 1,
        failures: 0,
        token: claimed.token,
        created_at: at(10),
    };
    assert_eq!(claimed, expected);
    assert_eq!(record.state, DeliveryState::Pending, "a claim does not change the state");
    assert_eq!((record.attempts, record.last), (1, None));
    assert_eq!(record.due_at, Some(at(10 + CLAIM_SECONDS)));
    assert_eq!(outbox.claim(10, 10).await, [], "somebody has it");
}

pub async fn the_longest_due_comes_first(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    for (key, seconds) in [("d", 30), ("b", 10), ("e", 35), ("c", 20), ("a", 5)] {
        outbox.put(key, seconds).await;
    }
    assert_eq!(keys(&outbox.claim(2, 40).await), ["a", "b"]);
    let claimed = outbox.claim_one(20).await;
    assert!(outbox.settle(&claimed, Next::Retry(at(32)), 21).await);
    assert_eq!(keys(&outbox.claim(10, 40).await), ["d", "c", "e"]);
}

/// Whoever goes away with a claim gives it up by that.
pub async fn a_claim_ends_by_itself(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 10).await;
    let lost = outbox.claim_one(10).await;
    let outbox = outbox.crash(fixture).await;
    assert_eq!(outbox.claim(10, 10 + CLAIM_SECONDS - 1).await, []);
    let taken = outbox.claim_one(10 + CLAIM_SECONDS).await;
    assert!(taken.token > lost.token);
    assert_eq!(taken, Delivery { attempt: 2, token: taken.token, ..lost.clone() });
    let before = outbox.look(lost.id).await;
    assert_eq!((before.0.attempts, &before.1), (2, &vec![]), "nobody knows how the first went");
    assert_eq!(taken.failures, 0);
    for next in [Next::Delivered, Next::Retry(at(200)), Next::Dead] {
        assert!(!outbox.settle(&lost, next, 80).await, "{next:?}");
    }
    assert_eq!(outbox.look(lost.id).await, before);
    assert!(outbox.settle(&taken, Next::Delivered, 80).await);
    assert!(!outbox.settle(&lost, Next::Dead, 81).await);
    assert_eq!(outbox.look(lost.id).await.0.state, DeliveryState::Delivered);
}

/// It has arrived, and as long as nobody else has begun to deliver it, that is how it is.
pub async fn a_late_end_counts_if_nobody_has_claimed(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 10).await;
    let delivery = outbox.claim_one(10).await;
    assert!(outbox.settle(&delivery, Next::Delivered, 11 + CLAIM_SECONDS).await);
    assert_eq!(outbox.claim(10, 1000).await, []);
}

pub async fn claims_at_once_are_disjoint(fixture: &dyn Fixture) {
    const DELIVERIES: usize = 300;
    let outbox = Arc::new(Outbox::open(fixture).await);
    let second = outbox.with_receiver("second").await;
    let wanted = [outbox.wanted(7), second.wanted(7)];
    for target in [&*outbox, &second] {
        target.put_all((0..DELIVERIES / 2).map(|number| number.to_string()), 10).await;
    }
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (outbox, wanted) = (Arc::clone(&outbox), wanted.clone());
            tokio::spawn(async move {
                let mut claimed = Vec::new();
                loop {
                    let more = claim(&*outbox.store, &wanted, 10).await;
                    if more.is_empty() {
                        return claimed;
                    }
                    claimed.extend(more);
                }
            })
        })
        .collect();
    let mut claimed = Vec::new();
    for task in tasks {
        claimed.extend(task.await.unwrap());
    }
    // A claim may find that others are about to take what it sees.
    claimed.extend(claim(&*outbox.store, &[outbox.wanted(1000), second.wanted(1000)], 10).await);
    assert!(claimed.iter().all(|delivery| delivery.attempt == 1));
    let different: BTreeSet<_> = claimed.iter().map(|delivery| delivery.id).collect();
    assert_eq!((claimed.len(), different.len()), (DELIVERIES, DELIVERIES));
}

pub async fn each_receiver_is_given_its_limit(fixture: &dyn Fixture) {
    let first = Outbox::open(fixture).await;
    let mut receivers = vec![first];
    for name in ["second", "third", "fourth"] {
        receivers.push(receivers[0].with_receiver(name).await);
    }
    for receiver in &receivers {
        for seconds in 1..=5 {
            receiver.put(&seconds.to_string(), seconds).await;
        }
    }
    let store = Arc::clone(&receivers[0].store);
    assert_eq!(claim(&*store, &[], 10).await, []);
    let wanted: Vec<Wanted> =
        receivers[..3].iter().zip([2, 0, 100]).map(|(one, limit)| one.wanted(limit)).collect();
    let claimed = claim(&*store, &wanted, 10).await;
    let of = |receiver: &Outbox| -> Vec<Delivery> {
        let mut own = claimed.clone();
        own.retain(|delivery| delivery.content.receiver == receiver.receiver);
        own
    };
    assert_eq!(keys(&of(&receivers[0])), ["1", "2"]);
    assert_eq!(keys(&of(&receivers[1])), [""; 0]);
    assert_eq!(keys(&of(&receivers[2])), ["1", "2", "3", "4", "5"]);
    assert_eq!(keys(&of(&receivers[3])), [""; 0], "nobody has asked for these");
    assert_eq!(claimed.len(), 7);
}

/// Tenants may be kept in different places.
pub async fn receivers_of_several_tenants_are_served_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut wanted = Vec::new();
    for tenant in ["a", "b", "c"] {
        let outbox = Outbox::of(&store, tenant).await;
        for seconds in 1..=3 {
            outbox.put(&format!("{tenant}{seconds}"), seconds).await;
        }
        wanted.push(outbox.wanted(2));
    }
    let claimed = claim(&*store, &wanted, 10).await;
    let mut found = keys(&claimed);
    found.sort_unstable();
    assert_eq!(found, ["a1", "a2", "b1", "b2", "c1", "c2"]);
}

/// A number alone opens no door: deliveries are those of a tenant.
pub async fn the_receiver_of_another_tenant_is_not_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (own, other) = (Outbox::of(&store, "a").await, Outbox::of(&store, "b").await);
    own.put("a", 5).await;
    for tenant in ["b", "c", "A"] {
        let stranger = Outbox { tenant: tenant.to_owned(), ..own.clone() };
        assert_eq!(stranger.claim(10, 10).await, []);
        assert_eq!(stranger.list().await, []);
        let given_up = store.abandon_deliveries(tenant, own.receiver, at(10)).await.unwrap();
        assert_eq!(given_up, 0);
    }
    assert_eq!(other.claim(10, 10).await, []);
    assert_eq!(keys(&own.claim(10, 10).await), ["a"]);
}
