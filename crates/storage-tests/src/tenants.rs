//! Tenants.

use storage::{StoreError, Tenant, TenantLimits};

use crate::Fixture;
use crate::support::{at, draw, new_sequence, open, reopen};

/// With a number for all limits, or none.
fn tenant(name: &str, limit: Option<u32>, seconds: i64) -> Tenant {
    let limits = TenantLimits {
        requests_per_second: limit,
        active_batches_max: limit.map(|limit| limit - 1),
        codes_max: limit.map(|limit| u64::from(limit) << 31),
    };
    Tenant { name: name.to_owned(), limits, created_at: at(seconds) }
}

pub async fn a_tenant_is_made_and_changed(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.put_tenant(&tenant("acme", None, 1)).await.unwrap();
    assert_eq!(store.list_tenants().await.unwrap(), [tenant("acme", None, 1)]);
    store.put_tenant(&tenant("acme", Some(u32::MAX), 2)).await.unwrap();
    new_sequence(&*store, "order").await;
    let store = reopen(fixture, store).await;
    let expected = [tenant("acme", Some(u32::MAX), 1)];
    assert_eq!(store.list_tenants().await.unwrap(), expected, "the time of its making stays");
    store.put_tenant(&tenant("acme", None, 3)).await.unwrap();
    assert_eq!(store.list_tenants().await.unwrap(), [tenant("acme", None, 1)]);
}

pub async fn tenants_are_listed_by_name(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for (seconds, name) in (0..).zip(["b", "c", "a"]) {
        store.put_tenant(&tenant(name, None, seconds)).await.unwrap();
    }
    let names: Vec<_> =
        store.list_tenants().await.unwrap().into_iter().map(|tenant| tenant.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

pub async fn a_tenant_with_types_stays(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (used, unused) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    draw(&*store, used, 1).await;
    let refused = store.remove_tenant("acme").await;
    assert!(matches!(refused, Err(StoreError::InUse)), "{refused:?}");
    store.remove_type(unused).await.unwrap();
    store.remove_type(used).await.unwrap();
    let refused = store.remove_tenant("acme").await;
    assert!(matches!(refused, Err(StoreError::InUse)), "a retired type counts: {refused:?}");
    assert_eq!(store.list_tenants().await.unwrap().len(), 1);
}

pub async fn an_unknown_tenant_cannot_be_removed(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    store.put_tenant(&tenant("acme", None, 1)).await.unwrap();
    store.remove_tenant("acme").await.unwrap();
    assert_eq!(store.list_tenants().await.unwrap(), []);
    let refused = store.remove_tenant("acme").await;
    assert!(matches!(refused, Err(StoreError::NotFound("tenant"))), "{refused:?}");
}
