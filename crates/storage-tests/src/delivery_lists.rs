//! Deliveries on record: what is listed, and what is forgotten.

use std::collections::BTreeSet;

use storage::{DeliveryFilter, DeliveryId, DeliveryRecord, DeliveryState, Next, Verdict};

use crate::Fixture;
use crate::outbox_support::Outbox;
use crate::support::at;

/// Twelve deliveries that came to several states, one after the other, with their times.
async fn mixed(outbox: &Outbox) -> Vec<DeliveryId> {
    let mut ids = Vec::new();
    for seconds in (100..).step_by(10).take(12) {
        outbox.put(&seconds.to_string(), seconds).await;
        let id = match seconds / 10 % 4 {
            0 => outbox.bring(Next::Delivered, seconds).await,
            1 => outbox.bring(Next::Dead, seconds).await,
            2 => outbox.bring(Next::Retry(at(1_000_000)), seconds).await,
            _ => {
                let id = outbox.list().await[0].id;
                let abandon = Verdict::Abandon;
                assert!(outbox.store.decide_delivery(id, abandon, at(seconds)).await.unwrap());
                id
            }
        };
        ids.push(id);
    }
    ids
}

pub async fn deliveries_are_listed_latest_first(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other = outbox.with_receiver("other").await;
    assert_eq!(outbox.list().await, []);
    other.put("b", 5).await;
    let mut expected = mixed(&outbox).await;
    other.put("c", 5).await;
    drop(other);
    expected.reverse();
    let outbox = outbox.crash(fixture).await;
    let all = outbox.list().await;
    assert_eq!(all.iter().map(|record| record.id).collect::<Vec<_>>(), expected);
    for limit in [0, 1, 5, 12, 100] {
        let page = DeliveryFilter { limit, ..outbox.filter() };
        assert_eq!(outbox.store.deliveries(&page).await.unwrap(), all[..limit.min(12)]);
    }
    for (place, record) in all.iter().enumerate() {
        let before = Some(record.id);
        let rest = DeliveryFilter { before, ..outbox.filter() };
        assert_eq!(outbox.store.deliveries(&rest).await.unwrap(), all[place + 1..]);
        let page = DeliveryFilter { before, limit: 2, ..outbox.filter() };
        let expected = &all[place + 1..12.min(place + 3)];
        assert_eq!(outbox.store.deliveries(&page).await.unwrap(), expected);
    }
}

pub async fn deliveries_are_listed_by_state(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    mixed(&outbox).await;
    let all = outbox.list().await;
    for state in DeliveryState::ALL {
        let filter = DeliveryFilter { state: Some(state), ..outbox.filter() };
        let mut expected = all.clone();
        expected.retain(|record| record.state == state);
        assert_eq!(expected.len(), 3);
        assert_eq!(outbox.store.deliveries(&filter).await.unwrap(), expected);
        let page = DeliveryFilter { before: Some(expected[0].id), limit: 1, ..filter };
        assert_eq!(outbox.store.deliveries(&page).await.unwrap(), expected[1..2]);
    }
    let none = outbox.with_receiver("none").await;
    for state in DeliveryState::ALL {
        let filter = DeliveryFilter { state: Some(state), ..none.filter() };
        assert_eq!(outbox.store.deliveries(&filter).await.unwrap(), []);
    }
}

pub async fn what_is_settled_and_old_is_forgotten(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    mixed(&outbox).await;
    let all = outbox.list().await;
    let is_over = |record: &DeliveryRecord| {
        matches!(record.state, DeliveryState::Delivered | DeliveryState::Abandoned)
    };
    // These were over at the seconds 110, 120, 150, 160, 190 and 200.
    let forget = async |seconds| outbox.store.forget_deliveries(at(seconds), 100).await.unwrap();
    assert_eq!(forget(110).await, 0, "that was not before");
    assert_eq!(forget(150).await, 2);
    assert_eq!(forget(150).await, 0);
    let mut expected = all.clone();
    expected.retain(|record| {
        !is_over(record) || record.settled_at.is_some_and(|settled| settled >= at(150))
    });
    assert_eq!(expected.len(), 10);
    assert_eq!(outbox.list().await, expected);
    assert_eq!(forget(1_000_000_000).await, 4);
    let mut expected = all.clone();
    expected.retain(|record| !is_over(record));
    let outbox = outbox.crash(fixture).await;
    assert_eq!(outbox.list().await, expected, "what is pending or dead stays");
    for record in all {
        let found = outbox.store.delivery(record.id).await.unwrap();
        assert_eq!(found.is_none(), is_over(&record));
        if is_over(&record) {
            let retry = Verdict::Retry;
            assert!(!outbox.store.decide_delivery(record.id, retry, at(2)).await.unwrap());
        }
    }
}

pub async fn only_so_many_are_forgotten_at_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    for seconds in 10..15 {
        outbox.put("a", seconds).await;
        let delivery = outbox.claim_one(seconds).await;
        assert!(outbox.settle(&delivery, Next::Retry(at(seconds)), seconds).await);
        outbox.bring(Next::Delivered, seconds).await;
    }
    let mut left: BTreeSet<_> = outbox.list().await.into_iter().map(|record| record.id).collect();
    assert_eq!(outbox.store.forget_deliveries(at(100), 0).await.unwrap(), 0);
    for (limit, count) in [(2, 2), (2, 2), (2, 1), (2, 0)] {
        assert_eq!(outbox.store.forget_deliveries(at(100), limit).await.unwrap(), count);
        let now: BTreeSet<_> = outbox.list().await.into_iter().map(|record| record.id).collect();
        assert!(now.is_subset(&left));
        assert_eq!((left.len() - now.len()) as u64, count);
        left = now;
    }
}

/// The state counts that a delivery is in, not those that it has been in.
pub async fn what_is_tried_again_is_not_forgotten(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    let id = outbox.bring(Next::Delivered, 10).await;
    assert!(outbox.store.decide_delivery(id, Verdict::Retry, at(20)).await.unwrap());
    assert_eq!(outbox.store.forget_deliveries(at(1000), 100).await.unwrap(), 0);
    assert_eq!(outbox.bring(Next::Dead, 30).await, id);
    assert_eq!(outbox.store.forget_deliveries(at(1000), 100).await.unwrap(), 0);
    assert!(outbox.store.decide_delivery(id, Verdict::Abandon, at(40)).await.unwrap());
    assert_eq!(outbox.store.forget_deliveries(at(40), 100).await.unwrap(), 0);
    assert_eq!(outbox.store.forget_deliveries(at(41), 100).await.unwrap(), 1);
    assert_eq!(outbox.list().await, []);
}
