//! ID types.

use idgen::spec::{IdType, Kind, SequenceSpec};
use storage::{Change, Draw, Removal, Store, StoreError, StoredType, TypeId, TypeState};

use crate::Fixture;
use crate::support::{
    ME, at, change, draw, handed_out, new_sequence, new_snowflake, open, order, reopen, sequence,
    snowflake, span,
};

/// A type with another template.
fn changed(name: &str) -> IdType {
    let spec = SequenceSpec { template: "X-{seq}".to_owned(), ..SequenceSpec::default() };
    IdType::new("acme", name, Kind::Sequence(spec)).unwrap()
}

/// The revision that a change has led to.
fn revision(change: Change) -> i64 {
    let Change::Done(revision) = change else { panic!("{change:?}") };
    revision
}

async fn get(store: &dyn Store, id: TypeId) -> Option<StoredType> {
    store.list_types().await.unwrap().into_iter().find(|stored| stored.id == id)
}

pub async fn a_type_comes_back_as_it_was_stored(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let random: IdType = serde_json::from_str(
        r#"{"tenant": "farms", "name": "farmer", "random":
            {"alphabet": "digits", "length": 12, "check": "verhoeff", "filters": "openg2p"}}"#,
    )
    .unwrap();
    let mut stored = Vec::new();
    for (id_type, key) in [
        (random, &b"\0sealed\xff"[..]),
        (sequence("acme", "order"), b""),
        (snowflake("acme", "event"), b""),
    ] {
        let created = store.create_type(&id_type, key, at(3)).await.unwrap();
        let StoredType { id, .. } = created;
        let expected = StoredType {
            id,
            id_type,
            sealed_key: key.to_vec(),
            state: TypeState::Active,
            revision: created.revision,
            used: false,
            created_at: at(3),
        };
        assert_eq!(created, expected);
        stored.push(created);
    }
    let store = reopen(fixture, store).await;
    let mut listed = store.list_types().await.unwrap();
    listed.sort_by_key(|stored| stored.id);
    assert_eq!(listed, stored);
}

pub async fn a_type_brings_its_tenant(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for name in ["a", "b"] {
        store.create_type(&sequence("farms", name), &[], at(3)).await.unwrap();
    }
    let tenants = store.list_tenants().await.unwrap();
    assert_eq!(tenants.len(), 1);
    assert_eq!((tenants[0].name.as_str(), tenants[0].created_at), ("farms", at(3)));
}

pub async fn a_taken_name_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let refused = store.create_type(&changed("order"), &[], at(5)).await;
    assert!(matches!(refused, Err(StoreError::Exists("type"))), "{refused:?}");
    draw(&*store, id, 1).await;
    store.remove_type(id).await.unwrap();
    let retired = store.create_type(&changed("order"), &[], at(5)).await;
    assert!(matches!(retired, Err(StoreError::Exists("type"))), "{retired:?}");
    store.create_type(&sequence("other", "order"), &[], at(5)).await.unwrap();
    assert_eq!(store.list_types().await.unwrap().len(), 2);
}

pub async fn an_unused_type_changes_freely(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let before = store.create_type(&sequence("acme", "order"), b"key", at(1)).await.unwrap();
    for only_if_unused in [true, false] {
        let done =
            change(&*store, before.id, &changed("order"), b"sealed", only_if_unused).await.unwrap();
        let (revision, sealed_key) = (revision(done), b"sealed".to_vec());
        let expected =
            StoredType { id_type: changed("order"), sealed_key, revision, ..before.clone() };
        assert_eq!(get(&*store, before.id).await.unwrap(), expected);
    }
}

pub async fn a_used_type_changes_only_where_allowed(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 1).await;
    let refused = change(&*store, id, &changed("order"), b"sealed", true).await.unwrap();
    assert_eq!(refused, Change::TypeIsUsed);
    assert_eq!(get(&*store, id).await.unwrap().id_type, sequence("acme", "order"));
    let done = change(&*store, id, &changed("order"), b"sealed", false).await.unwrap();
    let stored = get(&*store, id).await.unwrap();
    assert_eq!((stored.id_type, stored.used), (changed("order"), true));
    let order = Draw { revision: revision(done), ..order(id, 1) };
    assert_eq!(store.draw(order).await.unwrap(), 1..2);
}

pub async fn a_change_of_what_is_no_longer_there_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let revision = revision(change(&*store, id, &changed("order"), b"", true).await.unwrap());
    for stale in [revision - 1, revision + 1] {
        let refused = store.change_type(id, stale, &sequence("acme", "order"), b"", true).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
    }
    assert_eq!(get(&*store, id).await.unwrap().id_type, changed("order"));
}

pub async fn the_revision_grows_with_every_change(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let other = new_sequence(&*store, "other").await;
    assert_eq!(get(&*store, id).await.unwrap().revision, 0);
    for expected in 1..4 {
        let done = change(&*store, id, &changed("order"), b"", true).await.unwrap();
        assert_eq!(done, Change::Done(expected));
        assert_eq!(get(&*store, id).await.unwrap().revision, expected);
    }
    // Use is no change, and neither is a change that was refused.
    store.draw(Draw { revision: 3, ..order(id, 1) }).await.unwrap();
    change(&*store, id, &changed("order"), b"", true).await.unwrap();
    change(&*store, id, &changed("other"), b"", false).await.unwrap_err();
    assert_eq!(get(&*store, id).await.unwrap().revision, 3);
    store.remove_type(id).await.unwrap();
    let store = reopen(fixture, store).await;
    assert_eq!(get(&*store, id).await.unwrap().revision, 4, "retirement is a change");
    let done = change(&*store, id, &changed("order"), b"", false).await.unwrap();
    assert_eq!(done, Change::Done(5));
    assert_eq!(get(&*store, other).await.unwrap().revision, 0);
}

pub async fn a_type_is_never_renamed_onto_another(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let refused = change(&*store, b, &changed("a"), b"sealed", false).await;
    assert!(matches!(refused, Err(StoreError::Exists("type"))), "{refused:?}");
    for (id, name) in [(a, "a"), (b, "b")] {
        assert_eq!(get(&*store, id).await.unwrap().id_type, sequence("acme", name));
    }
}

pub async fn an_unused_type_is_deleted(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    assert_eq!(store.remove_type(id).await.unwrap(), Removal::Deleted);
    assert_eq!(get(&*store, id).await, None);
    new_sequence(&*store, "order").await;
}

pub async fn a_used_type_is_retired_and_revived(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 5).await;
    for _ in 0..2 {
        assert_eq!(store.remove_type(id).await.unwrap(), Removal::Retired);
        assert_eq!(get(&*store, id).await.unwrap().state, TypeState::Retired);
    }
    let store = reopen(fixture, store).await;
    assert_eq!(get(&*store, id).await.unwrap().state, TypeState::Retired);
    let refused = change(&*store, id, &changed("order"), b"sealed", true).await.unwrap();
    assert_eq!(refused, Change::TypeIsUsed);
    assert_eq!(get(&*store, id).await.unwrap().state, TypeState::Retired);
    let spec = sequence("acme", "order");
    let revived = revision(change(&*store, id, &spec, b"sealed", false).await.unwrap());
    assert_eq!(get(&*store, id).await.unwrap().state, TypeState::Active);
    let order = Draw { revision: revived, ..order(id, 1) };
    assert_eq!(store.draw(order).await.unwrap(), 5..6);
}

pub async fn numbers_of_deleted_types_do_not_come_back(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let mut latest = TypeId(0);
    for _ in 0..3 {
        let id = new_sequence(&*store, "order").await;
        assert!(id > latest);
        latest = id;
        store.remove_type(id).await.unwrap();
        store = reopen(fixture, store).await;
    }
}

pub async fn unknown_types_cannot_be_changed_or_removed(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = TypeId(new_sequence(&*store, "order").await.0 + 1);
    let refused = change(&*store, id, &changed("order"), b"sealed", false).await;
    assert!(matches!(refused, Err(StoreError::NotFound("type"))), "{refused:?}");
    let refused = store.remove_type(id).await;
    assert!(matches!(refused, Err(StoreError::NotFound("type"))), "{refused:?}");
    assert_eq!(store.counters(id).await.unwrap(), []);
}

pub async fn a_draw_marks_its_type_as_used(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let drawn = store.draw(order(a, 10)).await.unwrap();
    store.give_back(&span(a, drawn), ME, at(2)).await.unwrap();
    assert!(get(&*store, a).await.unwrap().used, "once used, it stays so");
    assert!(!get(&*store, b).await.unwrap().used);
}

pub async fn a_logged_snowflake_marks_its_type_as_used(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_snowflake(&*store, "event").await;
    store.record_issues(&[handed_out(id, 1000..1003)]).await.unwrap();
    assert!(get(&*store, id).await.unwrap().used);
    let changed = change(&*store, id, &snowflake("acme", "event"), b"sealed", true).await.unwrap();
    assert_eq!(changed, Change::TypeIsUsed);
}
