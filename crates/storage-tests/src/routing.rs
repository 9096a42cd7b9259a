//! From events to deliveries.

use std::sync::Arc;

use storage::{DeliveryId, DeliveryRecord, DeliveryState, NewDelivery};

use crate::Fixture;
use crate::outbox_support::{Outbox, events};
use crate::support::{at, crash, reopen};

pub async fn an_event_becomes_deliveries_in_one_step(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other = outbox.with_receiver("other").await;
    let (event, later) = (outbox.event().await, outbox.event().await);
    let deliveries = [outbox.message("a"), other.message("a"), other.message("b")];
    assert!(outbox.store.route_event(event, &deliveries, at(5)).await.unwrap());
    let left: Vec<_> = events(&*outbox.store).await.iter().map(|event| event.id).collect();
    assert_eq!(left, [later]);
    let second = other.receiver;
    drop(other);
    let outbox = outbox.crash(fixture).await;
    let other = Outbox { receiver: second, ..outbox.clone() };
    let listed = outbox.list().await;
    assert_eq!(listed.len(), 1);
    let expected = DeliveryRecord {
        id: listed[0].id,
        content: outbox.message("a").heading(),
        state: DeliveryState::Pending,
        attempts: 0,
        last: None,
        due_at: Some(at(5)),
        created_at: at(5),
        settled_at: None,
    };
    assert_eq!(listed[0], expected);
    assert_eq!(outbox.look(listed[0].id).await, (expected, vec![]));
    let mut contents: Vec<_> =
        other.list().await.into_iter().map(|record| record.content).collect();
    contents.sort_by(|a, b| a.key.cmp(&b.key));
    let expected: Vec<_> = deliveries[1..].iter().map(NewDelivery::heading).collect();
    assert_eq!(contents, expected);
}

pub async fn an_event_is_routed_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let event = outbox.event().await;
    let route = async |key: &str| {
        let deliveries = [outbox.message(key)];
        outbox.store.route_event(event, &deliveries, at(5)).await.unwrap()
    };
    assert!(route("first").await);
    for key in ["first", "second"] {
        assert!(!route(key).await);
    }
    let listed = outbox.list().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].content.key, "first");
}

pub async fn who_routes_at_once_routes_once(fixture: &dyn Fixture) {
    let outbox = Arc::new(Outbox::open(fixture).await);
    for _ in 0..5 {
        let event = outbox.event().await;
        let before = outbox.list().await.len();
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let outbox = Arc::clone(&outbox);
                tokio::spawn(async move {
                    let key = task.to_string();
                    let deliveries = [outbox.message(&key), outbox.message(&key)];
                    outbox.store.route_event(event, &deliveries, at(5)).await.unwrap()
                })
            })
            .collect();
        let mut routed = 0;
        for task in tasks {
            routed += u32::from(task.await.unwrap());
        }
        assert_eq!(routed, 1);
        let listed = outbox.list().await;
        assert_eq!(listed.len(), before + 2);
        assert_eq!(listed[0].content, listed[1].content, "both are of the same task");
    }
}

pub async fn an_event_that_nobody_wants_is_forgotten(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let event = outbox.event().await;
    assert!(outbox.store.route_event(event, &[], at(5)).await.unwrap());
    assert!(!outbox.store.route_event(event, &[outbox.message("a")], at(5)).await.unwrap());
    assert_eq!(events(&*outbox.store).await, []);
    assert_eq!(outbox.list().await, []);
}

pub async fn an_unknown_event_is_not_routed(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let event = outbox.event().await;
    let unknown = [
        DeliveryId::new(event.number() + 1, event.shard()),
        DeliveryId::new(event.number(), 1023),
        DeliveryId(0),
        DeliveryId(-1),
        DeliveryId(i64::MAX),
    ];
    for id in unknown {
        assert!(!outbox.store.route_event(id, &[outbox.message("a")], at(5)).await.unwrap());
    }
    assert_eq!(events(&*outbox.store).await.len(), 1);
    assert_eq!(outbox.list().await, []);
}

/// Whatever is to be delivered arrives as it is.
pub async fn contents_come_back_as_they_were_put(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let texts = [
        String::new(),
        "it's \"quoted\", `too`; -- \\ %s ${x} \\u0000".to_owned(),
        "line\nline\r\n\ttab \u{1f4e6}\u{200d}\u{1f525} e\u{301} \u{202e}".to_owned(),
        "{\"a\": [1, null], \"ö\": \"\u{10ffff}\"}".to_owned(),
        "\u{1f331}'\n".repeat(180_000),
    ];
    assert!(texts[4].len() >= 1_000_000);
    let mut expected: Vec<NewDelivery> = Vec::new();
    for text in &texts {
        // Only bodies are large.
        let short: String = text.chars().take(200).collect();
        let receiver = outbox.receiver;
        expected.push(NewDelivery {
            receiver,
            key: short.clone(),
            subject: short,
            body: text.clone(),
        });
    }
    for delivery in &expected {
        let deliveries = std::slice::from_ref(delivery);
        let event = outbox.event().await;
        assert!(outbox.store.route_event(event, deliveries, at(5)).await.unwrap());
    }
    let store = reopen(fixture, outbox.store).await;
    let outbox = Outbox { store, ..outbox };
    let mut found: Vec<_> = outbox.list().await.into_iter().map(|record| record.content).collect();
    found.reverse();
    let headings: Vec<_> = expected.iter().map(NewDelivery::heading).collect();
    assert!(found == headings, "what is listed is not what was put");
    let claimed = outbox.claim(10, 5).await;
    assert_eq!(claimed.len(), expected.len());
    for delivery in claimed {
        assert!(expected.contains(&delivery.content));
        assert!(outbox.look(delivery.id).await.0.content == delivery.content.heading());
        let body = outbox.store.body_of(delivery.id).await.unwrap();
        assert!(body == Some(delivery.content.body));
    }
}

/// Those of one tenant grow in order of creation, and none comes back.
pub async fn the_numbers_of_deliveries_grow(fixture: &dyn Fixture) {
    let mut outbox = Outbox::open(fixture).await;
    let mut last = DeliveryId(i64::MIN);
    for round in 0..4 {
        outbox.put("a", 5).await;
        let id = outbox.list().await[0].id;
        assert!(id > last);
        last = id;
        if round % 2 == 0 {
            assert!(outbox.settle(&outbox.claim_one(5).await, storage::Next::Delivered, 6).await);
            assert_eq!(outbox.store.forget_deliveries(at(10), 100).await.unwrap(), 1);
        } else {
            outbox.store.abandon_deliveries(&outbox.tenant, outbox.receiver, at(20)).await.unwrap();
        }
        let store = crash(fixture, outbox.store).await;
        outbox = Outbox { store, ..outbox };
    }
}
