//! Epochs of shared pools.

use std::sync::Arc;

use crate::Fixture;
use crate::support::{at, crash, open, reopen};

pub async fn there_is_no_epoch_before_the_first_server(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    assert_eq!(store.current_pool_epoch().await.unwrap(), None);
    let epoch = store.pool_epoch("a", at(0)).await.unwrap();
    assert_eq!(store.current_pool_epoch().await.unwrap(), Some(epoch));
}

pub async fn a_server_keeps_its_epoch(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let epoch = store.pool_epoch("a", at(0)).await.unwrap();
    for seconds in 1..4 {
        assert_eq!(store.pool_epoch("a", at(seconds)).await.unwrap(), epoch);
        store = if seconds % 2 == 0 {
            reopen(fixture, store).await
        } else {
            crash(fixture, store).await
        };
        assert_eq!(store.current_pool_epoch().await.unwrap(), Some(epoch));
    }
}

/// A server that comes back may have come back with old contents, so it is a new one.
pub async fn every_change_of_server_begins_an_epoch(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let mut latest = 0;
    for (seconds, server) in (0..).zip(["a", "b", "a", "c", "b", "a", "", "a"]) {
        let epoch = store.pool_epoch(server, at(seconds)).await.unwrap();
        assert!(epoch > latest, "{server}: {epoch} after {latest}");
        assert_eq!(store.pool_epoch(server, at(seconds)).await.unwrap(), epoch);
        assert_eq!(store.current_pool_epoch().await.unwrap(), Some(epoch));
        latest = epoch;
        store = crash(fixture, store).await;
    }
}

pub async fn instances_that_meet_a_new_server_agree(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut latest = 0;
    for round in 0..10 {
        let tasks = [(); 8].map(|()| {
            let store = Arc::clone(&store);
            let server = format!("server {round}");
            tokio::spawn(async move { store.pool_epoch(&server, at(round)).await.unwrap() })
        });
        let mut epochs = Vec::new();
        for task in tasks {
            epochs.push(task.await.unwrap());
        }
        assert!(epochs.iter().all(|&epoch| epoch == epochs[0] && epoch > latest), "{epochs:?}");
        latest = epochs[0];
    }
}
