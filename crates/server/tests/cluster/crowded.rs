//! A worker that finds all connections of its instance in use.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::thread;

use test_services::{Database, Servers};

use crate::support::batches::{order, wait_for};
use crate::support::{Deployment, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

/// Whoever asks for the audit log waits, and so does whoever makes tables for codes.
const LOCKS: &str = "BEGIN; LOCK TABLE deeds; SELECT pg_advisory_xact_lock(1296979015, 6);";

/// Sessions in the database that wait for such a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%make_code_tables%'";

/// A session that has locked something, until it is dropped.
struct Locked(Child);

impl Locked {
    fn new(database: &Database) -> Self {
        let mut psql = Command::new("psql")
            .args([&database.url(), "-X", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        writeln!(psql.stdin.as_mut().unwrap(), "{LOCKS}").unwrap();
        let taken = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 6";
        wait_until("the locks are taken", || database.sql(taken) == "1");
        Self(psql)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_chunk_that_waits_for_a_connection_has_not_failed() {
    let home = Home::on(Deployment::Postgres, Servers::shared())
        .with_config(CONFIG)
        .with("MINTAGE__CLUSTER__LEASE_SECONDS", "600")
        .with("MINTAGE__BATCHES__RETRIES", "0")
        .with("MINTAGE__BATCHES__WORKERS", "0");
    let orders = home.start().ready();
    let batch = order(orders.client(), "bottle", 10);
    let database = home.database().unwrap();
    let id = database.sql("SELECT id FROM id_types WHERE name = 'bottle'");
    database.sql(&format!("DROP TABLE codes_{id}_0, marks_{id}_0"));
    let locked = Locked::new(database);

    // Two connections: with one the worker tries for a quarter of the time to make the tables again.
    let home = home
        .with("MINTAGE__BATCHES__WORKERS", "1")
        .with("MINTAGE__POSTGRES__CONNECTIONS_MAX", "2")
        .with("MINTAGE__POSTGRES__TIMEOUT_MILLISECONDS", "8000");
    let crowded = home.start();
    wait_until("the worker has a chunk", || home.database().unwrap().sql(WAITING) == "1");
    thread::scope(|scope| {
        // Enough that some always wait for the connection which the worker wants next.
        for _ in 0..8 {
            let client = crowded.new_client();
            scope.spawn(move || (0..4).for_each(|_| drop(client.get("/api/v1/audit"))));
        }
        wait_until("the chunk has to wait", || crowded.log().contains("has to wait"));
        drop(locked);
    });
    assert_eq!(wait_for(orders.client(), &batch, "completed")["made"], 10);
}
