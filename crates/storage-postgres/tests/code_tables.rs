//! Tables of codes are there before anybody writes to them.

#[path = "support/orders.rs"]
mod orders;
mod support;

use std::sync::Arc;
use std::time::Duration;

use orders::{new_order, new_type, ordered, terms, worker};
use storage::{BatchStore, CODES_PER_TABLE, TypeId, always};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;
use tokio_postgres::Client;

const FORBID: &str = "
    ALTER SCHEMA public OWNER TO CURRENT_USER;
    REVOKE ALL ON SCHEMA public FROM CURRENT_USER, PUBLIC;
    GRANT USAGE ON SCHEMA public TO CURRENT_USER";

const ALLOW: &str = "GRANT ALL ON SCHEMA public TO CURRENT_USER";

/// With time to wait for a table, however busy the machine is.
async fn open(databases: &Databases) -> Arc<PostgresStore> {
    let settings =
        PostgresSettings { step_timeout: Duration::from_secs(20), ..databases.settings() };
    PostgresStore::open(settings).await.unwrap()
}

async fn is_there(client: &Client, type_id: TypeId, number: u64) -> bool {
    let sql = format!("SELECT to_regclass('codes_{}_{number}') IS NOT NULL", type_id.0);
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

async fn rows(client: &Client, type_id: TypeId, number: u64) -> i64 {
    let sql = format!("SELECT count(*) FROM codes_{}_{number}", type_id.0);
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn the_first_table_comes_with_the_order() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let client = databases.connect().await;
    let id = new_type(&store, "code").await;
    ordered(&store, &new_order(id, 3 * CODES_PER_TABLE - 10, 1_000_000, 20)).await;
    for (number, expected) in [(1, false), (2, true), (3, true), (4, false)] {
        assert_eq!(is_there(&client, id, number).await, expected, "{number}");
    }
}

#[tokio::test]
async fn writing_rows_makes_no_tables() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let client = databases.connect().await;
    let id = new_type(&store, "code").await;
    ordered(&store, &new_order(id, CODES_PER_TABLE - 30, 60, 10)).await;
    assert!(!is_there(&client, id, 1).await, "there is time");
    let first = store.claim_chunk(&worker(0), None, terms()).await.unwrap().unwrap();
    assert!(is_there(&client, id, 1).await, "the end of the first table is near");
    client.batch_execute(FORBID).await.unwrap();
    assert!(store.finish_chunk(&first, always(orders::NOW)).await.unwrap());
    // Another instance has to find out that they are there.
    let other = open(&databases).await;
    for number in 1..6 {
        let store = if number % 2 == 0 { &store } else { &other };
        let chunk = store.claim_chunk(&worker(0), None, terms()).await.unwrap().unwrap();
        assert_eq!(chunk.number, number);
        assert!(store.finish_chunk(&chunk, always(orders::NOW)).await.unwrap());
    }
    assert_eq!((rows(&client, id, 0).await, rows(&client, id, 1).await), (30, 30));
    assert!(!is_there(&client, id, 2).await, "no batch has such codes");
}

#[tokio::test]
async fn a_table_that_could_not_be_made_ahead_is_made_when_it_is_needed() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let client = databases.connect().await;
    let id = new_type(&store, "code").await;
    client.batch_execute(FORBID).await.unwrap();
    let batch = ordered(&store, &new_order(id, CODES_PER_TABLE - 10, 20, 20)).await;
    let chunk = store.claim_chunk(&worker(0), None, terms()).await.unwrap().unwrap();
    assert!(store.finish_chunk(&chunk, always(orders::NOW)).await.is_err());
    client.batch_execute(ALLOW).await.unwrap();
    assert!(store.finish_chunk(&chunk, always(orders::NOW)).await.unwrap());
    assert_eq!((rows(&client, id, 0).await, rows(&client, id, 1).await), (10, 10));
    assert_eq!(store.batch(batch.id).await.unwrap().unwrap().made, 20);
}
