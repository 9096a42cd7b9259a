//! A worker that stands still while it sends codes to the database, and keeps its connection.

use std::time::{Duration, Instant};

use serde_json::json;
use test_services::Servers;

use crate::support::batches::{order, wait_for};
use crate::support::{Deployment, Home, Server, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

/// One chunk, so large that it takes a while to send.
const CODES: u64 = 1_000_000;

on_every_cluster!(a_silent_worker_loses_its_chunk, a_batch_of_a_silent_worker_is_cancelled_at_once,);

/// Instances are not taken for gone here: that they are silent is all that is known of them.
fn home(deployment: Deployment) -> Home {
    Home::on(deployment, Servers::shared())
        .with_config(CONFIG)
        .with("MINTAGE__CLUSTER__LEASE_SECONDS", "600")
        .with("MINTAGE__BATCHES__CHUNK_CODES", &CODES.to_string())
        .with("MINTAGE__BATCHES__SILENT_SECONDS", "1")
        .with("MINTAGE__BATCHES__WORKERS", "0")
}

/// Stops a process while it sends codes, and waits until the database has got all that it had sent.
fn pause_while_it_sends(home: &Home, worker: &Server) {
    let copies = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND state = 'active' AND query LIKE 'COPY codes%'";
    let database = home.database().unwrap();
    wait_until("it sends codes", || database.sql(copies) == "1");
    worker.pause();
    let waiting = format!("{copies} AND wait_event = 'ClientRead'");
    wait_until("the database waits for it", || database.sql(&waiting) == "1");
}

fn a_silent_worker_loses_its_chunk(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start().ready();
    let client = server.client();
    let home = home.with("MINTAGE__BATCHES__WORKERS", "1");
    let first = home.start();
    let batch = order(client, "bottle", CODES);
    pause_while_it_sends(&home, &first);

    let second = home.start();
    let done = wait_for(client, &batch, "completed");
    assert_eq!((&done["made"], &done["abandoned"]), (&json!(CODES), &json!(0)));
    second.stop();
    first.resume();
    wait_until("it finds that its chunk is another's", || first.log().contains("no longer ours"));
    assert_eq!(wait_for(client, &order(client, "bottle", 10), "completed")["made"], 10);
    let database = home.database().unwrap();
    let id = database.sql("SELECT id FROM id_types WHERE name = 'bottle'");
    let rows = database.sql(&format!("SELECT count(*), count(DISTINCT serial) FROM codes_{id}_0"));
    assert_eq!(rows, format!("{0}|{0}", CODES + 10));
    assert_eq!(wait_for(client, &batch, "completed"), done);
}

fn a_batch_of_a_silent_worker_is_cancelled_at_once(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start().ready();
    let client = server.client();
    let home = home.with("MINTAGE__BATCHES__WORKERS", "1");
    let worker = home.start();
    let batch = order(client, "bottle", CODES);
    pause_while_it_sends(&home, &worker);

    let asked = Instant::now();
    let path = format!("/api/v1/batches/{}/cancel", batch["id"].as_str().unwrap());
    let cancelled = client.post(&path, &json!({})).body;
    let took = asked.elapsed();
    assert_eq!((&cancelled["state"], &cancelled["made"]), (&json!("cancelled"), &json!(0)));
    assert!(took < Duration::from_secs(1), "{took:?}");
    worker.resume();
    assert_eq!(wait_for(client, &order(client, "bottle", 10), "completed")["made"], 10);
    let database = home.database().unwrap();
    let id = database.sql("SELECT id FROM id_types WHERE name = 'bottle'");
    assert_eq!(database.sql(&format!("SELECT count(*) FROM codes_{id}_0")), "10");
}
