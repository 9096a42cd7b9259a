//! Receivers.

use storage::{NewReceiver, Purpose, Receiver, ReceiverId, Store, StoreError, Void};

use crate::Fixture;
use crate::outbox_support::webhook;
use crate::support::{at, open, reopen};

async fn create(store: &dyn Store, receiver: &NewReceiver, seconds: i64) -> Receiver {
    store.create_receiver(receiver, at(seconds)).await.unwrap()
}

async fn list(store: &dyn Store) -> Vec<Receiver> {
    store.list_receivers().await.unwrap()
}

pub async fn a_receiver_comes_back_as_it_was_stored(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let plain = webhook("acme", "hook");
    let strange = NewReceiver {
        purpose: Purpose::Sink,
        name: "it's \"quoted\"\n\t\\ \u{1f4e6}".to_owned(),
        settings: "{\"header\": \"'; DROP TABLE receivers; --\\u0000\u{1f511}\\n\"}".to_owned(),
        ..webhook("Bülent & Söhne", "")
    };
    let mut created = Vec::new();
    for (seconds, receiver) in (1..).zip([&plain, &strange]) {
        let known = create(&*store, receiver, seconds).await;
        assert_eq!(&known.receiver, receiver);
        assert_eq!((known.disabled.as_ref(), known.created_at), (None, at(seconds)));
        created.push(known);
    }
    let store = reopen(fixture, store).await;
    assert_eq!(list(&*store).await, created);
}

pub async fn receivers_are_listed_by_number(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    assert_eq!(list(&*store).await, []);
    for (tenant, name) in [("b", "x"), ("a", "z"), ("c", "y"), ("a", "x")] {
        create(&*store, &webhook(tenant, name), 1).await;
    }
    let listed = list(&*store).await;
    assert!(listed.is_sorted_by(|one, next| one.id < next.id));
    let names: Vec<_> = listed
        .iter()
        .map(|known| (known.receiver.tenant.as_str(), known.receiver.name.as_str()))
        .collect();
    assert_eq!(names, [("b", "x"), ("a", "z"), ("c", "y"), ("a", "x")]);
}

pub async fn a_name_is_taken_for_a_tenant_and_a_purpose(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let first = webhook("acme", "hook");
    let others = [
        NewReceiver { purpose: Purpose::Sink, ..first.clone() },
        webhook("other", "hook"),
        webhook("acme", "Hook"),
    ];
    let mut created = vec![create(&*store, &first, 1).await];
    for other in &others {
        created.push(create(&*store, other, 1).await);
    }
    for taken in others.iter().chain([&first]) {
        let again = NewReceiver { settings: "{}".to_owned(), ..taken.clone() };
        let refused = store.create_receiver(&again, at(2)).await;
        assert!(matches!(refused, Err(StoreError::Exists("receiver"))), "{refused:?}");
    }
    assert_eq!(list(&*store).await, created);
}

pub async fn settings_are_changed_by_who_knows_the_revision(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let first = create(&*store, &webhook("acme", "hook"), 1).await;
    let other = create(&*store, &webhook("acme", "other"), 1).await;
    let changed = store.change_receiver(first.id, first.revision, "[1]").await.unwrap();
    assert!(changed.revision > first.revision);
    let receiver = NewReceiver { settings: "[1]".to_owned(), ..first.receiver.clone() };
    let expected = Receiver { receiver, revision: changed.revision, ..first.clone() };
    assert_eq!(changed, expected);
    for stale in [first.revision, changed.revision + 1] {
        let refused = store.change_receiver(first.id, stale, "[2]").await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
    }
    let store = reopen(fixture, store).await;
    assert_eq!(list(&*store).await, [expected, other]);
}

pub async fn a_disabled_receiver_keeps_its_first_reason(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let first = create(&*store, &webhook("acme", "hook"), 1).await;
    let other = create(&*store, &webhook("acme", "other"), 1).await;
    assert!(store.disable_receiver(first.id, "it answers 410: \"gone\"", at(2)).await.unwrap());
    assert!(!store.disable_receiver(first.id, "later", at(3)).await.unwrap());
    let store = reopen(fixture, store).await;
    let listed = list(&*store).await;
    let reason = "it answers 410: \"gone\"".to_owned();
    assert_eq!(listed[0].disabled, Some(Void { at: at(2), reason }));
    assert!(listed[0].revision > first.revision, "what clients know of it has changed");
    assert_eq!(listed[0].receiver, first.receiver);
    assert_eq!(listed[1], other);
}

pub async fn a_change_puts_a_disabled_receiver_to_use(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let first = create(&*store, &webhook("acme", "hook"), 1).await;
    for round in 0..2 {
        assert!(store.disable_receiver(first.id, "broken", at(2 + round)).await.unwrap());
        let known = list(&*store).await.remove(0);
        assert_eq!(known.disabled.map(|void| void.at), Some(at(2 + round)));
        let changed = store.change_receiver(first.id, known.revision, "{}").await.unwrap();
        assert_eq!(changed.disabled, None);
        assert_eq!(list(&*store).await, [changed]);
    }
}

pub async fn a_removed_receiver_is_forgotten(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let first = create(&*store, &webhook("acme", "hook"), 1).await;
    let other = create(&*store, &webhook("acme", "other"), 1).await;
    assert!(store.remove_receiver(first.id).await.unwrap());
    assert!(!store.remove_receiver(first.id).await.unwrap());
    let store = reopen(fixture, store).await;
    assert_eq!(list(&*store).await, [other]);
}

pub async fn numbers_of_removed_receivers_do_not_come_back(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        for name in ["one", "two"] {
            let created = create(&*store, &webhook("acme", name), 1).await;
            assert!(seen.iter().all(|known| *known < created.id), "{seen:?}");
            seen.push(created.id);
        }
        for known in list(&*store).await {
            assert!(store.remove_receiver(known.id).await.unwrap());
        }
        store = reopen(fixture, store).await;
    }
}

pub async fn an_unknown_receiver_is_not_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let removed = create(&*store, &webhook("acme", "hook"), 1).await;
    store.remove_receiver(removed.id).await.unwrap();
    for id in [removed.id, ReceiverId(removed.id.0 + 1), ReceiverId(-1)] {
        let refused = store.change_receiver(id, removed.revision, "{}").await;
        assert!(matches!(refused, Err(StoreError::NotFound("receiver"))), "{refused:?}");
        assert!(!store.disable_receiver(id, "broken", at(2)).await.unwrap());
        assert!(!store.remove_receiver(id).await.unwrap());
    }
    assert_eq!(list(&*store).await, []);
}
