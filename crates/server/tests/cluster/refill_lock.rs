//! The instance that refills a Redis pool stands still until its lock has expired.

use std::collections::HashSet;
use std::process::Command;

use test_services::Servers;

use crate::instances::{TableLock, home, metric, order_serial};
use crate::support::{Deployment, Ledger, assert_new, wait_until};

const SIZE: u64 = 20_000;

/// Asks Redis and returns what it says.
fn redis(command: &[&str]) -> String {
    let url = &Servers::shared().redis;
    let (password, place) = url.strip_prefix("redis://:").unwrap().split_once('@').unwrap();
    let (_, port) = place.strip_suffix("/0").unwrap().split_once(':').unwrap();
    let output = Command::new("redis-cli")
        .args(["--no-auth-warning", "-a", password, "-p", port])
        .args(command)
        .output()
        .expect("redis-cli runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_refill_whose_lock_has_expired_adds_nothing_and_repeats_nothing() {
    let home = home(Deployment::PostgresAndRedis)
        .with("MINTAGE__REDIS__LOCK_SECONDS", "1")
        .with("MINTAGE__ISSUING__POOL_SIZE_MIN", &SIZE.to_string())
        .with("MINTAGE__ISSUING__POOL_SIZE_MAX", &SIZE.to_string());
    let database = home.database().unwrap();
    let sleeper = home.start();
    let namespace = format!("mintage:{}", database.sql("SELECT cluster FROM meta"));
    let key = |end: &str| redis(&["--scan", "--pattern", &format!("{namespace}:*:{end}")]);
    let level = || match key("serials").as_str() {
        "" => 0,
        list => redis(&["LLEN", list]).parse::<u64>().unwrap(),
    };
    let mut seen = HashSet::new();
    let mut take = |server: &crate::support::Server, count| {
        let ids = server.client().issue("order", count);
        assert_new(&mut seen, &ids);
    };
    // Pools of sequences are filled from the first request on.
    take(&sleeper, 1);
    wait_until("the pool is full", || level() >= SIZE - 1);

    // The refill takes its lock in Redis and is then held up by the counter in the database.
    let counters = TableLock::take(database, "counters");
    take(&sleeper, 8000);
    take(&sleeper, 8000);
    wait_until("the refill has its lock", || !key("refill").is_empty());
    sleeper.pause();
    assert!(!key("refill").is_empty(), "it still has it");
    drop(counters);
    wait_until("the lock has expired", || key("refill").is_empty());

    let other = home.start();
    take(&other, 1);
    wait_until("another instance has filled the pool", || level() >= SIZE - 1);
    sleeper.resume();
    wait_until("it knows that it has lost its lock", || {
        metric(&sleeper, "mintage_redis_locks_lost_total") > 0.0
    });
    // Only what instances had taken ahead may come back on top.
    assert!(level() < SIZE + SIZE / 4, "{} of {SIZE}", level());
    for _ in 0..3 {
        take(&sleeper, 8000);
        take(&other, 8000);
    }
    let last = seen.iter().map(|id| order_serial(id)).max().unwrap();
    let (_, asked_for) = Ledger::settle(other.client(), "order", 1, last);
    assert_new(&mut seen, &asked_for);
}
