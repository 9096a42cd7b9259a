//! How attempts to deliver end.

use std::time::Duration;

use storage::{Attempt, DeliveryId, DeliveryRecord, DeliveryState, Next, Outcome, Verdict};

use crate::Fixture;
use crate::outbox_support::{Outbox, attempt, claim, outcome, settle};
use crate::support::{at, open};

pub async fn what_has_arrived_is_delivered(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let delivery = outbox.claim_one(10).await;
    assert_eq!(
        settle(&*outbox.store, &[outcome(&delivery, 11, Next::Delivered)], 12).await,
        [true]
    );
    let outbox = outbox.crash(fixture).await;
    let expected = DeliveryRecord {
        id: delivery.id,
        content: outbox.message("a").heading(),
        state: DeliveryState::Delivered,
        attempts: 1,
        last: Some(attempt(&delivery, 11, None)),
        due_at: None,
        created_at: at(5),
        settled_at: Some(at(12)),
    };
    let found = outbox.look(delivery.id).await;
    assert_eq!(found, (expected.clone(), vec![]), "only failures are logged");
    assert_eq!(outbox.list().await, [expected]);
    assert_eq!(outbox.claim(10, 10_000).await, []);
}

/// Whatever was decided meanwhile, and whoever has a claim on it.
pub async fn what_arrives_late_has_arrived(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let arrived = |id, attempt: Attempt| {
        let store = &outbox.store;
        async move { store.note_arrival(id, &attempt, at(30)).await.unwrap() }
    };
    for next in [Next::Dead, Next::Retry(at(20))] {
        outbox.put("a", 5).await;
        let first = outbox.claim_one(10).await;
        assert!(outbox.settle(&first, next, 12).await);
        let second = outbox.claim(1, 20).await;
        let attempts = second.first().map_or(1, |claim| claim.attempt);
        assert!(arrived(first.id, attempt(&first, 11, None)).await);
        let (record, _) = outbox.look(first.id).await;
        assert_eq!((record.state, record.settled_at), (DeliveryState::Delivered, Some(at(30))));
        assert_eq!(record.last, Some(attempt(&first, 11, None)));
        assert_eq!((record.attempts, record.due_at), (attempts, None));
        for claim in second {
            assert!(!outbox.settle(&claim, Next::Dead, 40).await, "there is nothing to settle");
        }
        assert!(!arrived(first.id, attempt(&first, 11, None)).await, "it is known");
        assert_eq!(outbox.claim(10, 10_000).await, []);
    }
    let unknown = DeliveryId(i64::MAX);
    outbox.put("b", 50).await;
    let other = outbox.claim_one(60).await;
    assert!(!arrived(unknown, attempt(&other, 61, None)).await);

    // What somebody wants sent once more is sent.
    assert!(outbox.settle(&other, Next::Delivered, 62).await);
    assert!(outbox.store.decide_delivery(other.id, Verdict::Retry, at(63)).await.unwrap());
    assert!(!arrived(other.id, attempt(&other, 61, None)).await);
    assert_eq!(outbox.claim_one(64).await.id, other.id);
}

pub async fn another_attempt_waits_for_its_time(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let first = outbox.claim_one(10).await;
    let failed = attempt(&first, 11, Some("on purpose"));
    let next = Next::Retry(at(100));
    assert_eq!(settle(&*outbox.store, &[outcome(&first, 11, next)], 12).await, [true]);
    let outbox = outbox.crash(fixture).await;
    let expected = DeliveryRecord {
        id: first.id,
        content: outbox.message("a").heading(),
        state: DeliveryState::Pending,
        attempts: 1,
        last: Some(failed.clone()),
        due_at: Some(at(100)),
        created_at: at(5),
        settled_at: None,
    };
    assert_eq!(outbox.look(first.id).await, (expected, vec![failed]));
    assert_eq!(outbox.claim(10, 99).await, []);
    let second = outbox.claim_one(100).await;
    assert!(second.token > first.token);
    assert_eq!((second.attempt, &second.content), (2, &first.content));
}

pub async fn what_is_given_up_on_is_dead(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let delivery = outbox.claim_one(10).await;
    assert_eq!(settle(&*outbox.store, &[outcome(&delivery, 11, Next::Dead)], 12).await, [true]);
    let outbox = outbox.crash(fixture).await;
    let (record, log) = outbox.look(delivery.id).await;
    let failed = attempt(&delivery, 11, Some("on purpose"));
    assert_eq!((record.state, record.attempts), (DeliveryState::Dead, 1));
    assert_eq!((record.due_at, record.settled_at), (None, Some(at(12))));
    assert_eq!((record.last, log), (Some(failed.clone()), vec![failed]));
    assert_eq!(outbox.claim(10, 10_000).await, []);
}

pub async fn failed_attempts_are_logged_in_order(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("other", 1).await;
    assert!(outbox.settle(&outbox.claim_one(2).await, Next::Retry(at(10_000)), 3).await);
    outbox.put("a", 5).await;
    let failures = [
        (Some(503), "no room"),
        (None, "it's \"unreachable\"\n\u{1f50c}\\ '; --"),
        (Some(404), ""),
        (Some(999), "nobody\tknows"),
    ];
    let mut expected = Vec::new();
    for (number, (status, error)) in (1..).zip(failures) {
        let seconds = i64::from(number) * 100;
        let delivery = outbox.claim_one(seconds).await;
        assert_eq!((delivery.attempt, delivery.failures), (number, number - 1));
        let failed = Attempt {
            number,
            at: at(seconds),
            duration: Duration::from_millis(u64::from(number) * 40_000 + 7),
            status,
            error: Some(error.to_owned()),
        };
        expected.push(failed.clone());
        let next = Next::Retry(at(seconds + 100));
        let outcome =
            Outcome { delivery: delivery.id, token: delivery.token, attempt: failed, next };
        assert_eq!(settle(&*outbox.store, &[outcome], seconds + 1).await, [true]);
    }
    let outbox = outbox.crash(fixture).await;
    let delivery = outbox.claim_one(500).await;
    let (record, log) = outbox.look(delivery.id).await;
    assert_eq!((record.attempts, record.last.as_ref()), (5, expected.last()));
    assert_eq!(log, expected);
    assert!(outbox.settle(&delivery, Next::Delivered, 502).await);
    let (record, log) = outbox.look(delivery.id).await;
    assert_eq!((record.attempts, record.last), (5, Some(attempt(&delivery, 501, None))));
    assert_eq!(log, expected);
}

/// What is settled is settled, also by the same claim.
pub async fn settling_twice_changes_nothing(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let nexts = [Next::Delivered, Next::Retry(at(1000)), Next::Dead];
    for first in nexts {
        outbox.put("a", 5).await;
        let delivery = outbox.claim_one(10).await;
        assert!(outbox.settle(&delivery, first, 12).await);
        let before = outbox.look(delivery.id).await;
        for second in nexts {
            assert!(!outbox.settle(&delivery, second, 13).await, "{first:?}, then {second:?}");
        }
        assert_eq!(outbox.look(delivery.id).await, before);
    }
}

pub async fn who_settles_at_once_settles_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let delivery = outbox.claim_one(10).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (outbox, delivery) = (outbox.clone(), delivery.clone());
            tokio::spawn(async move { outbox.settle(&delivery, Next::Retry(at(50)), 12).await })
        })
        .collect();
    let mut counted = 0;
    for task in tasks {
        counted += u32::from(task.await.unwrap());
    }
    assert_eq!(counted, 1);
    assert_eq!(outbox.look(delivery.id).await.1.len(), 1, "and it is logged once");
}

pub async fn an_old_claim_does_not_hold_up_the_others(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    for key in ["a", "b", "c", "d"] {
        outbox.put(key, 10).await;
    }
    let mut claimed = outbox.claim(10, 10).await;
    claimed.sort_by(|a, b| a.content.key.cmp(&b.content.key));
    assert!(outbox.settle(&claimed[1], Next::Retry(at(20)), 11).await);
    let again = outbox.claim_one(20).await;
    assert_eq!(again.id, claimed[1].id);
    let nexts = [Next::Delivered, Next::Delivered, Next::Dead, Next::Retry(at(90))];
    let outcomes: Vec<_> =
        claimed.iter().zip(nexts).map(|(delivery, next)| outcome(delivery, 21, next)).collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 22).await, [true, false, true, true]);
    let mut states = Vec::new();
    for delivery in &claimed {
        let record = outbox.look(delivery.id).await.0;
        states.push((record.state, record.due_at));
    }
    let expected = [
        (DeliveryState::Delivered, None),
        (DeliveryState::Pending, Some(at(80))),
        (DeliveryState::Dead, None),
        (DeliveryState::Pending, Some(at(90))),
    ];
    assert_eq!(states, expected);
    assert!(outbox.settle(&again, Next::Delivered, 23).await);
}

pub async fn unknown_deliveries_are_not_settled(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    assert_eq!(settle(&*outbox.store, &[], 10).await, [false; 0]);
    outbox.put("a", 5).await;
    let delivery = outbox.claim_one(10).await;
    let real = outcome(&delivery, 11, Next::Delivered);
    let unknown = [
        DeliveryId::new(delivery.id.number() + 1, delivery.id.shard()),
        DeliveryId::new(delivery.id.number(), 1023),
        DeliveryId(-1),
    ];
    let mut outcomes: Vec<_> =
        unknown.into_iter().map(|delivery| Outcome { delivery, ..real.clone() }).collect();
    outcomes.push(Outcome { token: delivery.token + 1, ..real.clone() });
    outcomes.push(Outcome { token: delivery.token - 1, ..real.clone() });
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [false; 5]);
    assert_eq!(outbox.look(delivery.id).await.0.state, DeliveryState::Pending);
    assert_eq!(settle(&*outbox.store, &[real], 12).await, [true]);
}

/// Tenants may be kept in different places; the answers are in the order of the question.
pub async fn deliveries_of_several_tenants_are_settled_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut wanted = Vec::new();
    for tenant in ["a", "b", "c"] {
        let outbox = Outbox::of(&store, tenant).await;
        outbox.put_all((0..4).map(|number| format!("{tenant}{number}")), 5).await;
        wanted.push(outbox.wanted(10));
    }
    let mut claimed = claim(&*store, &wanted, 10).await;
    assert_eq!(claimed.len(), 12);
    claimed.sort_by_key(|delivery| delivery.content.key.bytes().rev().collect::<Vec<_>>());
    let outcomes: Vec<_> = (0..12)
        .zip(&claimed)
        .map(|(place, delivery)| {
            let real = outcome(delivery, 11, Next::Delivered);
            Outcome { token: real.token - i64::from(place % 5 == 3), ..real }
        })
        .collect();
    let counted = settle(&*store, &outcomes, 12).await;
    let expected: Vec<_> = (0..12).map(|place| place % 5 != 3).collect();
    assert_eq!(counted, expected);
    for (delivery, counted) in claimed.iter().zip(counted) {
        let state = store.delivery(delivery.id).await.unwrap().unwrap().0.state;
        assert_eq!(state == DeliveryState::Delivered, counted, "{delivery:?}");
    }
}

/// As many as an instance has at once, and each comes to what was said of it.
pub async fn many_deliveries_are_settled_in_one_step(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put_all((0..1500).map(|number| number.to_string()), 5).await;
    let claimed = outbox.claim(1500, 10).await;
    assert_eq!(claimed.len(), 1500);
    let next = |place| match place % 4 {
        0 => Next::Delivered,
        1 => Next::Retry(at(1000 + place)),
        2 => Next::Dead,
        _ => Next::Untried,
    };
    let outcomes: Vec<_> = (0..)
        .zip(&claimed)
        .map(|(place, delivery)| outcome(delivery, 10 + place, next(place)))
        .collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [true; 1500]);
    let mut listed = outbox.list().await;
    listed
        .sort_by_cached_key(|record| claimed.iter().position(|delivery| delivery.id == record.id));
    assert_eq!(listed.len(), 1500);
    for (place, record) in (0..).zip(&listed) {
        let (state, due_at) = match next(place) {
            Next::Delivered => (DeliveryState::Delivered, None),
            Next::Retry(at) => (DeliveryState::Pending, Some(at)),
            Next::Dead => (DeliveryState::Dead, None),
            Next::Untried => (DeliveryState::Pending, Some(at(12))),
        };
        assert_eq!((record.state, record.due_at), (state, due_at));
        let tried = (next(place) != Next::Untried).then(|| at(10 + place));
        assert_eq!(record.last.as_ref().map(|last| last.at), tried);
    }
    let (_, log) = outbox.look(claimed[1].id).await;
    assert_eq!(log, [attempt(&claimed[1], 11, Some("on purpose"))]);
}
