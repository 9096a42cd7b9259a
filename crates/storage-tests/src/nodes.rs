//! Snowflake nodes.

use storage::StoreError;

use crate::Fixture;
use crate::support::{ME, SUCCESSOR, crash, reopen};

pub async fn a_new_node_has_used_no_time(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let lease = store.lease_node(ME).await.unwrap();
    assert_eq!(lease.high_water_ms, None);
    assert_eq!(store.lease_node(ME).await.unwrap(), lease, "a second lease is the same one");
}

pub async fn reserved_time_never_goes_back(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let node = store.lease_node(ME).await.unwrap().node;
    for (reserved, expected) in [(1000, 1000), (2000, 2000), (1500, 2000), (-1, 2000)] {
        store.reserve_time(node, ME, reserved).await.unwrap();
        let lease = store.lease_node(ME).await.unwrap();
        assert_eq!((lease.node, lease.high_water_ms), (node, Some(expected)));
    }
}

pub async fn reserved_time_survives_a_reopening(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let node = store.lease_node(ME).await.unwrap().node;
    store.reserve_time(node, ME, 1000).await.unwrap();
    let store = reopen(fixture, store).await;
    let lease = store.lease_node(ME).await.unwrap();
    assert_eq!((lease.node, lease.high_water_ms), (node, Some(1000)));
    store.reserve_time(node, ME, 2000).await.unwrap();
    let store = crash(fixture, store).await;
    // Another instance may be given another node. If it is this one, it must know.
    let lease = store.lease_node(SUCCESSOR).await.unwrap();
    assert!(lease.node != node || lease.high_water_ms == Some(2000), "{lease:?}");
}

pub async fn time_is_only_reserved_for_a_node_that_is_held(fixture: &dyn Fixture) {
    let store = fixture.open().await;
    let node = store.lease_node(ME).await.unwrap().node;
    for (node, instance) in [(node + 1, ME), (node, SUCCESSOR)] {
        let refused = store.reserve_time(node, instance, 5000).await;
        assert!(matches!(refused, Err(StoreError::NotFound("node"))), "{refused:?}");
    }
    assert_eq!(store.lease_node(ME).await.unwrap().high_water_ms, None);
}
