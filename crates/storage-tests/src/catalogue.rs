//! The store as a whole.

use storage::{NewApiKey, Next, ReceiverId, Scope, Store, Tenant, TenantLimits};

use crate::Fixture;
use crate::outbox_support::{Outbox, webhook};
use crate::support::{
    LEASE, ME, at, change, draw, handed_out, new_sequence, open, order, reopen, sequence, span,
};

fn key(short: &str) -> NewApiKey {
    NewApiKey {
        short: short.to_owned(),
        secret_hash: [3; 32],
        name: String::new(),
        tenant: None,
        scopes: vec![Scope::Admin],
        requests_per_second: None,
        created_at: at(0),
        expires_at: None,
    }
}

/// Compares the version with the one before.
struct Watch<'a> {
    store: &'a dyn Store,
    version: u64,
}

impl<'a> Watch<'a> {
    async fn new(store: &'a dyn Store) -> Self {
        Self { store, version: store.catalogue_version().await.unwrap() }
    }

    async fn expect(&mut self, grown: bool, after: &str) {
        let version = self.store.catalogue_version().await.unwrap();
        assert!(version >= self.version, "{after}");
        assert_eq!(version > self.version, grown, "{after}");
        self.version = version;
    }
}

pub async fn the_version_grows_with_every_change(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut watch = Watch::new(&*store).await;
    let id = new_sequence(&*store, "order").await;
    watch.expect(true, "create a type").await;
    change(&*store, id, &sequence("acme", "other"), b"sealed", true).await.unwrap();
    watch.expect(true, "change a type").await;
    store.remove_type(id).await.unwrap();
    watch.expect(true, "delete a type").await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 1).await;
    watch = Watch::new(&*store).await;
    store.remove_type(id).await.unwrap();
    watch.expect(true, "retire a type").await;
    change(&*store, id, &sequence("acme", "order"), b"sealed", false).await.unwrap();
    watch.expect(true, "revive a type").await;
    for requests_per_second in [None, Some(5)] {
        let limits = TenantLimits { requests_per_second, ..TenantLimits::default() };
        let tenant = Tenant { name: "b".to_owned(), limits, created_at: at(0) };
        store.put_tenant(&tenant).await.unwrap();
        watch.expect(true, "put a tenant").await;
    }
    store.remove_tenant("b").await.unwrap();
    watch.expect(true, "remove a tenant").await;
    store.create_key(&key("abc")).await.unwrap();
    watch.expect(true, "create a key").await;
    store.revoke_key("abc", at(1)).await.unwrap();
    watch.expect(true, "revoke a key").await;
    let receiver = store.create_receiver(&webhook("acme", "hook"), at(1)).await.unwrap();
    watch.expect(true, "create a receiver").await;
    store.change_receiver(receiver.id, receiver.revision, "{}").await.unwrap();
    watch.expect(true, "change a receiver").await;
    assert!(store.disable_receiver(receiver.id, "broken", at(2)).await.unwrap());
    watch.expect(true, "disable a receiver").await;
    assert!(store.remove_receiver(receiver.id).await.unwrap());
    watch.expect(true, "remove a receiver").await;
    let version = watch.version;
    let store = reopen(fixture, store).await;
    assert_eq!(store.catalogue_version().await.unwrap(), version);
}

pub async fn the_version_stays_when_nothing_changes(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    store.create_key(&key("abc")).await.unwrap();
    store.revoke_key("abc", at(1)).await.unwrap();
    let mut watch = Watch::new(&*store).await;
    store.create_type(&sequence("acme", "order"), &[], at(0)).await.unwrap_err();
    change(&*store, id, &sequence("acme", "order"), b"sealed", true).await.unwrap();
    store.remove_tenant("acme").await.unwrap_err();
    store.remove_tenant("unknown").await.unwrap_err();
    store.create_key(&key("abc")).await.unwrap_err();
    assert!(!store.revoke_key("abc", at(1)).await.unwrap());
    watch.expect(false, "refused changes").await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 0..4)]).await.unwrap();
    store.give_back(&span(id, 10..20), ME, at(2)).await.unwrap();
    store.join(ME, LEASE).await.unwrap();
    store.renew(ME, LEASE).await.unwrap();
    store.pool_epoch("a server", at(2)).await.unwrap();
    store.hand_over(&[span(id, 4..6)], ME, "another").await.unwrap();
    store.check().await.unwrap();
    watch.expect(false, "daily work").await;
}

pub async fn the_version_stays_when_receivers_stay(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let (store, receiver) = (&outbox.store, outbox.receiver);
    assert!(store.disable_receiver(receiver, "broken", at(1)).await.unwrap());
    // The first batch changes its type.
    let event = outbox.event().await;
    let mut watch = Watch::new(&**store).await;
    store.create_receiver(&webhook(&outbox.tenant, "hook"), at(1)).await.unwrap_err();
    store.change_receiver(receiver, 1000, "{}").await.unwrap_err();
    let unknown = ReceiverId(receiver.0 + 1);
    store.change_receiver(unknown, 0, "{}").await.unwrap_err();
    assert!(!store.disable_receiver(receiver, "still", at(2)).await.unwrap());
    assert!(!store.disable_receiver(unknown, "broken", at(2)).await.unwrap());
    assert!(!store.remove_receiver(unknown).await.unwrap());
    watch.expect(false, "refused changes").await;
    assert!(store.route_event(event, &[outbox.message("a")], at(2)).await.unwrap());
    outbox.bring(Next::Delivered, 3).await;
    assert_eq!(store.forget_deliveries(at(10), 10).await.unwrap(), 1);
    watch.expect(false, "deliveries").await;
}

/// Whoever keeps types in memory keeps with them whether they were used.
pub async fn the_version_grows_with_the_first_use_of_a_type(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let mut watch = Watch::new(&*store).await;
    store.draw(order(id, 1)).await.unwrap();
    watch.expect(true, "first draw").await;
    store.draw(order(id, 1)).await.unwrap();
    watch.expect(false, "second draw").await;
}

pub async fn a_check_of_a_healthy_store_succeeds(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.check().await.unwrap();
    let store = reopen(fixture, store).await;
    store.check().await.unwrap();
}

pub async fn a_closed_store_is_unavailable(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    store.close().await.unwrap();
    let results = [
        store.check().await.err(),
        store.draw(order(id, 1)).await.err(),
        store.list_types().await.err(),
        store.catalogue_version().await.err(),
    ];
    for error in results {
        assert!(error.as_ref().is_some_and(storage::StoreError::is_unavailable), "{error:?}");
    }
}

pub async fn closing_twice_is_fine(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    drop(store);
    fixture.open().await.check().await.unwrap();
}
