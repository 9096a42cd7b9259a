//! Codes are looked up at a replica where that is as good, and at the primary where it is not.

#[path = "support/orders.rs"]
mod orders;
mod support;

use std::sync::Arc;
use std::time::Duration;

use orders::{NOW, new_order, new_type, ordered, terms, worker};
use storage::{Batch, BatchStore, CodeKey, CodeStore, Ledger, Store, always};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::{Servers, connect, with_database};
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

fn key(batch: &Batch, position: u64) -> CodeKey {
    CodeKey {
        type_id: batch.type_id,
        batch: batch.id,
        ledger: Ledger::Stored,
        serial: batch.serials.start + position,
    }
}

fn reads(store: &PostgresStore) -> f64 {
    let readings = Store::readings(store);
    readings
        .iter()
        .filter(|reading| reading.name == "replica_reads")
        .map(|reading| reading.value)
        .sum()
}

/// Looks at a code until a replica has answered.
async fn wait_for_replica(store: &PostgresStore, key: &CodeKey) {
    let (start, before) = (Instant::now(), reads(store));
    while reads(store) <= before {
        assert!(start.elapsed() < Duration::from_secs(60), "the replica is not used");
        assert!(store.code_from_copy(key).await.unwrap().is_some(), "it is always found");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn make(store: &Arc<PostgresStore>, name: &str) -> Batch {
    let id = new_type(store, name).await;
    let batch = ordered(store, &new_order(id, 0, 10, 10)).await;
    let chunk = store.claim_chunk(&worker(0), None, terms()).await.unwrap().unwrap();
    assert!(store.finish_chunk(&chunk, always(NOW)).await.unwrap());
    batch
}

/// The same place for one who may do anything.
fn superuser(servers: &Servers, url: &str) -> String {
    let password = std::fs::read_to_string(servers.directory().join("run/superuser")).unwrap();
    let (_, place) = url.rsplit_once('@').unwrap();
    format!("postgres://postgres:{}@{place}", password.trim())
}

async fn tell(client: &Client, what: &str) {
    client.batch_execute(&format!("SELECT {what}()")).await.unwrap();
}

/// On servers of its own, as the replica is told to stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_behind_is_passed_over() {
    let servers = tokio::task::spawn_blocking(Servers::start).await.unwrap();
    let (_, name) = servers.postgres.rsplit_once('/').unwrap();
    let replica = with_database(&servers.replica, name);
    let settings = PostgresSettings {
        replica: Some(replica.clone()),
        ..PostgresSettings::new(&servers.postgres)
    };
    let store = PostgresStore::open(settings).await.unwrap();
    let batch = make(&store, "code").await;
    wait_for_replica(&store, &key(&batch, 0)).await;
    assert_eq!(store.code_from_copy(&key(&batch, 10)).await.unwrap(), None, "there are ten");

    // What the replica does not have, the primary has.
    let client = connect(&superuser(&servers, &replica)).await;
    tell(&client, "pg_wal_replay_pause").await;
    let late = make(&store, "late").await;
    let status = store.code_from_copy(&key(&late, 3)).await.unwrap().unwrap();
    assert_eq!((status.scans, status.void), (0, None));

    // Who has to know of everything does not ask it.
    store.void_code(&key(&batch, 1), "stolen", NOW).await.unwrap().unwrap();
    assert!(store.code(&key(&batch, 1)).await.unwrap().unwrap().void.is_some());

    // What it has of old is not used once it is known to be behind.
    let start = Instant::now();
    while store.code_from_copy(&key(&batch, 1)).await.unwrap().unwrap().void.is_none() {
        assert!(start.elapsed() < Duration::from_secs(60), "an old answer is given for ever");
        sleep(Duration::from_millis(20)).await;
    }
    tell(&client, "pg_wal_replay_resume").await;
    wait_for_replica(&store, &key(&batch, 1)).await;
    assert!(store.code_from_copy(&key(&batch, 1)).await.unwrap().unwrap().void.is_some());

    // Without it everything goes on.
    tokio::task::spawn_blocking(move || {
        servers.tell("kill", "replica");
        servers
    })
    .await
    .unwrap();
    assert!(store.code_from_copy(&key(&batch, 1)).await.unwrap().unwrap().void.is_some());
}
