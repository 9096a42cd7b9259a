//! An instance hears of the orders that others take.

#[path = "support/orders.rs"]
mod orders;
mod support;

use std::sync::Arc;
use std::time::Duration;

use orders::{new_order, new_type, new_type_of, ordered};
use storage::{BatchStore, Ledger};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

const DEADLINE: Duration = Duration::from_secs(30);

/// A store, and the calls that it makes.
async fn listener(databases: &Databases) -> (Arc<PostgresStore>, UnboundedReceiver<()>) {
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let (sender, calls) = unbounded_channel();
    // A test that is over does not listen any more.
    store.on_order(Arc::new(move || sender.send(()).unwrap_or_default()));
    (store, calls)
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Forgets the calls that came so far.
fn settle(calls: &mut UnboundedReceiver<()>) {
    while calls.try_recv().is_ok() {}
}

#[tokio::test]
async fn orders_of_others_are_heard_of_on_every_shard() {
    let databases = Databases::create(2).await;
    let (first, mut calls) = listener(&databases).await;
    let second = PostgresStore::open(databases.settings()).await.unwrap();
    wait_until("it listens", || first.hears_of_orders()).await;
    settle(&mut calls);
    let mut shards = Vec::new();
    // A new tenant goes to the shard that has fewer.
    for tenant in ["one", "two"] {
        let id = new_type_of(&second, tenant, "code").await;
        let batch = ordered(&second, &new_order(id, 0, 10, 10)).await;
        shards.push(batch.id.shard());
        timeout(DEADLINE, calls.recv()).await.expect("it is heard of").unwrap();
    }
    shards.sort_unstable();
    assert_eq!(shards, [0, 1]);
    // A derived batch is nothing to work on.
    let mut derived = new_order(new_type(&second, "three").await, 0, 10, 10);
    derived.ledger = Ledger::Derived;
    ordered(&second, &derived).await;
    let id = new_type(&second, "four").await;
    ordered(&second, &new_order(id, 0, 10, 10)).await;
    timeout(DEADLINE, calls.recv()).await.expect("it is heard of").unwrap();
    assert!(calls.try_recv().is_err(), "of the derived one nothing is heard");
}

#[tokio::test]
async fn a_broken_connection_is_made_again() {
    let databases = Databases::create(1).await;
    let (store, mut calls) = listener(&databases).await;
    wait_until("it listens", || store.hears_of_orders()).await;
    settle(&mut calls);
    let client = databases.connect().await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert_eq!(client.query(cut, &[]).await.unwrap().len(), 1);
    // It calls when it is back, as it may have missed something.
    timeout(DEADLINE, calls.recv()).await.expect("it is back").unwrap();
    assert!(store.hears_of_orders());
    let id = new_type(&store, "code").await;
    ordered(&store, &new_order(id, 0, 10, 10)).await;
    timeout(DEADLINE, calls.recv()).await.expect("it is heard of").unwrap();
}

#[tokio::test]
async fn behind_a_pooler_nothing_is_heard() {
    let databases = Databases::create(1).await;
    let settings = PostgresSettings { prepared_statements: false, ..databases.settings() };
    let store = PostgresStore::open(settings).await.unwrap();
    assert!(!store.hears_of_orders());
}
