//! What people decide about deliveries.

use storage::{DeliveryId, DeliveryRecord, DeliveryState, Next, Verdict};

use crate::Fixture;
use crate::outbox_support::{Outbox, attempt};
use crate::support::{at, open};

/// What may have become of a delivery.
#[derive(Debug, Clone, Copy)]
enum Past {
    Fresh,
    UnderWay,
    FailedOnce,
    Delivered,
    Dead,
    Abandoned,
}

/// A delivery with a past, which is over by 20 seconds.
async fn after(outbox: &Outbox, past: Past) -> DeliveryId {
    outbox.put("a", 5).await;
    let id = outbox.list().await[0].id;
    match past {
        Past::Fresh => {}
        Past::UnderWay => assert_eq!(outbox.claim_one(10).await.id, id),
        Past::FailedOnce => assert_eq!(outbox.bring(Next::Retry(at(5000)), 10).await, id),
        Past::Delivered => assert_eq!(outbox.bring(Next::Delivered, 10).await, id),
        Past::Dead => assert_eq!(outbox.bring(Next::Dead, 10).await, id),
        Past::Abandoned => assert!(decide(outbox, id, Verdict::Abandon, 10).await),
    }
    id
}

async fn decide(outbox: &Outbox, id: DeliveryId, verdict: Verdict, seconds: i64) -> bool {
    outbox.store.decide_delivery(id, verdict, at(seconds)).await.unwrap()
}

pub async fn decisions_change_what_they_can(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let cases = [
        (Past::Fresh, false, true),
        (Past::UnderWay, false, true),
        (Past::FailedOnce, false, true),
        (Past::Delivered, true, false),
        (Past::Dead, true, true),
        (Past::Abandoned, true, false),
    ];
    for (past, retried, abandoned) in cases {
        for (verdict, expected) in [(Verdict::Retry, retried), (Verdict::Abandon, abandoned)] {
            let id = after(&outbox, past).await;
            let before = outbox.look(id).await;
            assert_eq!(decide(&outbox, id, verdict, 30).await, expected, "{past:?} {verdict:?}");
            let (now, log) = outbox.look(id).await;
            assert_eq!(log, before.1, "the log stays");
            let changed = match (expected, verdict) {
                (false, _) => before.0,
                (true, Verdict::Retry) => DeliveryRecord {
                    state: DeliveryState::Pending,
                    attempts: 0,
                    due_at: Some(at(30)),
                    settled_at: None,
                    ..before.0
                },
                (true, Verdict::Abandon) => DeliveryRecord {
                    state: DeliveryState::Abandoned,
                    due_at: None,
                    settled_at: Some(at(30)),
                    ..before.0
                },
            };
            assert_eq!(now, changed, "{past:?} {verdict:?}");
            // Nothing is left for the next case.
            outbox.store.abandon_deliveries(&outbox.tenant, outbox.receiver, at(40)).await.unwrap();
        }
    }
}

pub async fn a_delivery_is_tried_again_with_all_attempts(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let first = outbox.claim_one(10).await;
    assert!(outbox.settle(&first, Next::Retry(at(20)), 11).await);
    let second = outbox.claim_one(20).await;
    assert!(outbox.settle(&second, Next::Dead, 21).await);
    let mut log =
        vec![attempt(&first, 10, Some("on purpose")), attempt(&second, 20, Some("on purpose"))];
    let mut last = second;
    for seconds in [30, 40] {
        assert!(decide(&outbox, last.id, Verdict::Retry, seconds).await);
        assert!(!decide(&outbox, last.id, Verdict::Retry, seconds + 1).await, "once is enough");
        assert!(!outbox.settle(&last, Next::Delivered, seconds + 1).await);
        assert_eq!(outbox.claim(10, seconds - 1).await, []);
        let again = outbox.claim_one(seconds).await;
        assert!(again.token > last.token);
        assert_eq!((again.attempt, again.failures, &again.content), (1, 0, &last.content));
        assert!(outbox.settle(&again, Next::Dead, seconds + 2).await);
        log.push(attempt(&again, seconds + 1, Some("on purpose")));
        last = again;
    }
    let outbox = outbox.crash(fixture).await;
    let (record, found) = outbox.look(last.id).await;
    assert_eq!((record.attempts, record.last), (1, log.last().cloned()));
    assert_eq!(found, log);
}

/// Whatever comes of it, it was not wanted any more.
pub async fn abandoning_ends_the_claim(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let delivery = outbox.claim_one(10).await;
    assert!(decide(&outbox, delivery.id, Verdict::Abandon, 11).await);
    assert!(!outbox.settle(&delivery, Next::Delivered, 12).await);
    assert_eq!(outbox.claim(10, 10_000).await, []);
    assert!(decide(&outbox, delivery.id, Verdict::Retry, 13).await);
    for next in [Next::Delivered, Next::Retry(at(20)), Next::Dead] {
        assert!(!outbox.settle(&delivery, next, 14).await, "that claim is over");
    }
    let again = outbox.claim_one(14).await;
    assert!(again.token > delivery.token);
    assert!(outbox.settle(&again, Next::Delivered, 15).await);
}

pub async fn unknown_deliveries_are_not_decided_about(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = after(&outbox, Past::Dead).await;
    let unknown = [
        DeliveryId::new(id.number() + 1, id.shard()),
        DeliveryId::new(id.number(), 1023),
        DeliveryId(-1),
        DeliveryId(i64::MAX),
    ];
    for id in unknown {
        assert_eq!(outbox.store.delivery(id).await.unwrap(), None);
        for verdict in [Verdict::Retry, Verdict::Abandon] {
            assert!(!decide(&outbox, id, verdict, 30).await);
        }
    }
    assert_eq!(outbox.look(id).await.0.state, DeliveryState::Dead);
}

pub async fn everything_pending_is_abandoned(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other = outbox.with_receiver("other").await;
    other.put("b", 5).await;
    let mut pending = Vec::new();
    let mut claims = Vec::new();
    for _ in 0..3 {
        outbox.put("under way", 5).await;
        claims.push(outbox.claim_one(10).await);
        pending.push(after(&outbox, Past::FailedOnce).await);
    }
    let settled = [after(&outbox, Past::Delivered).await, after(&outbox, Past::Dead).await];
    pending.push(after(&outbox, Past::Fresh).await);
    pending.extend(claims.iter().map(|claim| claim.id));
    let mut before = Vec::new();
    for id in settled {
        before.push(outbox.look(id).await);
    }
    let abandon = async |seconds| {
        let outbox = &outbox;
        let (tenant, receiver) = (&outbox.tenant, outbox.receiver);
        outbox.store.abandon_deliveries(tenant, receiver, at(seconds)).await.unwrap()
    };
    assert_eq!(abandon(50).await, 7);
    assert_eq!(abandon(51).await, 0);
    for id in pending {
        let record = outbox.look(id).await.0;
        assert_eq!(record.state, DeliveryState::Abandoned);
        assert_eq!((record.due_at, record.settled_at), (None, Some(at(50))));
    }
    for claim in &claims {
        assert!(!outbox.settle(claim, Next::Delivered, 52).await);
    }
    for (id, before) in settled.into_iter().zip(before) {
        assert_eq!(outbox.look(id).await, before);
    }
    assert_eq!(outbox.claim(10, 10_000).await, []);
    assert_eq!(other.claim(10, 10).await.len(), 1);
}

/// Who was told what can still be looked up when the receiver is gone.
pub async fn deliveries_outlive_their_receiver(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let outbox = Outbox::of(&store, "acme").await;
    let id = after(&outbox, Past::Dead).await;
    after(&outbox, Past::Delivered).await;
    let (before, listed) = (outbox.look(id).await, outbox.list().await);
    assert!(store.remove_receiver(outbox.receiver).await.unwrap());
    assert_eq!(outbox.look(id).await, before);
    assert_eq!(outbox.list().await, listed);
    assert!(decide(&outbox, id, Verdict::Abandon, 30).await);
}
