//! Redis that is gone, comes back empty or with old data, or does not answer: orders go on.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use test_services::Servers;

use crate::instances::{
    CONFIG, breakable_servers, metric, order_serial, start_afresh, start_together,
};
use crate::load::{Place, assert_all_served, during, p99, some_more};
use crate::support::{Deployment, Home, Ledger, Server, assert_new, wait_until};

const BREAKER: &str = "mintage_redis_breaker_open";
const WITHDRAWALS: &str = "mintage_redis_withdraws_total";

fn breakers(servers: &[Server], state: f64) -> bool {
    servers.iter().all(|server| (metric(server, BREAKER) - state).abs() < 0.1)
}

/// Orders numbers from three instances while Redis is harmed and mended. None may fail or come
/// twice, afterwards Redis is in use again, and every number is explained.
fn issuing_goes_on(what: &str, harm: impl Fn(&Servers), mend: impl Fn(&Servers)) {
    let broken = breakable_servers();
    let home = Home::on(Deployment::PostgresAndRedis, &broken).with_config(CONFIG);
    let servers = start_together(&home, 3);
    wait_until("Redis is in use", || breakers(&servers, 0.0));
    broken.tell("snapshot", "redis");
    let places = Place::at(&servers);
    let (records, (from, to)) = during(&places, &["order"], |answers| {
        some_more(answers, 200);
        let from = Instant::now();
        harm(&broken);
        wait_until("it was noticed", || breakers(&servers, 1.0));
        some_more(answers, 200);
        let to = Instant::now();
        mend(&broken);
        wait_until("Redis is in use again", || breakers(&servers, 0.0));
        let before: Vec<f64> = servers.iter().map(|server| metric(server, WITHDRAWALS)).collect();
        some_more(answers, 200);
        for (server, before) in servers.iter().zip(before) {
            assert!(metric(server, WITHDRAWALS) > before, "its pools are not in use");
        }
        (from, to)
    });
    let mut orders = assert_all_served(&records, "order");
    let during = records.iter().filter(|record| (from..to).contains(&record.started));
    let (p99, slowest) =
        (p99(during.clone()), during.map(|record| record.took).max().unwrap_or_default());
    println!("Redis {what}: p99 {p99:?}, slowest {slowest:?}");
    // 100 ms until the database is used, 50 ms for an answer from Redis, and a busy machine.
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");

    // A draw whose answer was lost is with its instance until that ends.
    let server = start_afresh(&home, servers);
    let last = orders.iter().map(|id| order_serial(id)).max().unwrap();
    let told: HashSet<String> = orders.clone();
    let (ledger, asked_for) = Ledger::settle(server.client(), "order", 1, last);
    assert_new(&mut orders, &asked_for);
    for id in &told {
        assert!(ledger.is_issued(order_serial(id)), "{id} is not in the log");
    }
}

#[test]
fn issuing_goes_on_while_redis_is_gone_and_after_it_comes_back_empty() {
    issuing_goes_on(
        "gone",
        |servers| servers.tell("kill", "redis"),
        |servers| servers.tell("empty", "redis"),
    );
}

#[test]
fn issuing_goes_on_and_repeats_nothing_when_redis_comes_back_from_an_old_snapshot() {
    issuing_goes_on(
        "gone",
        |servers| servers.tell("kill", "redis"),
        |servers| servers.tell("restore", "redis"),
    );
}

#[test]
fn issuing_goes_on_while_redis_does_not_answer() {
    issuing_goes_on(
        "paused",
        |servers| servers.tell("pause", "redis"),
        |servers| servers.tell("resume", "redis"),
    );
}
