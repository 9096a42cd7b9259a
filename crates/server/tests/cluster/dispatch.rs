//! Turns and progress in Redis: what they are good for, and that nothing is lost with them.

use std::process::Command;

use serde_json::json;
use test_services::Servers;

use crate::instances::{breakable_servers, metric, start_together};
use crate::support::batches::{begins_soon, check_told, follow, order, wait_for};
use crate::support::{Client, Deployment, Home, Server, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

const TURNS: &str = "mintage_redis_turns_taken_total";
const PROGRESS: &str = "mintage_redis_progress_found_total";
const BREAKER: &str = "mintage_redis_breaker_open";

fn home(servers: &Servers) -> Home {
    Home::on(Deployment::PostgresAndRedis, servers)
        .with_config(CONFIG)
        .with("MINTAGE__BATCHES__CHUNK_CODES", "1000")
}

fn is_open(server: &Server) -> bool {
    metric(server, BREAKER) > 0.5
}

/// Nobody is called by the database here, and idle workers look for themselves only twice a second.
#[test]
fn a_turn_calls_workers_of_other_instances() {
    let home = home(Servers::shared()).with("MINTAGE__BATCHES__WORKERS", "0");
    let server = home.start().ready();
    let worker = home.start_worker().ready();
    home.database().unwrap().sql("DROP TRIGGER orders_are_told ON batches");
    wait_until("it waits for turns", || {
        begins_soon(server.client(), "bottle") && metric(&worker, TURNS) > 0.0
    });
    let soon = (0..8).filter(|_| begins_soon(server.client(), "bottle")).count();
    assert!(soon >= 6, "{soon} of 8 were begun within a tenth of a second");
}

/// The order is of an instance that cannot offer turns, and the only worker is never without one.
#[test]
fn a_tenant_without_a_turn_is_served_beside_others() {
    const CONFIG: &str = "
id_types:
  - { tenant: large, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { tenant: small, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";
    let home = home(Servers::shared()).with_config(CONFIG);
    let server = home.start().ready();
    let client = server.client();
    let order = |client: &Client, tenant: &str, count: u64| {
        let body = json!({"tenant": tenant, "type": "bottle", "count": count});
        let reply = client.post("/api/v1/batches", &body);
        assert_eq!(reply.status, 202, "{reply:?}");
        reply.body
    };
    let large = order(client, "large", 5_000_000);
    wait_until("it takes turns", || metric(&server, TURNS) > 2.0);
    let home = home.without("MINTAGE__REDIS__URL").with("MINTAGE__BATCHES__WORKERS", "0");
    let without_redis = home.start().ready();
    for _ in 0..3 {
        let small = order(without_redis.client(), "small", 3000);
        wait_for(client, &small, "completed");
    }
    let path = format!("/api/v1/batches/{}", large["id"].as_str().unwrap());
    let large = client.get(&path).body;
    assert_eq!(large["state"], "running", "the batch was too short: {large}");
}

/// Makes a batch on two instances while Redis is harmed and mended, and follows it on both.
fn a_batch_goes_on(harm: impl Fn(&Servers), is_noticed: bool, mend: impl Fn(&Servers)) {
    const CODES: u64 = 1_000_000;
    let broken = breakable_servers();
    let home = home(&broken);
    let servers = start_together(&home, 2);
    wait_until("Redis is in use", || !servers.iter().any(is_open));
    broken.tell("snapshot", "redis");
    let batch = order(servers[0].client(), "bottle", CODES);
    let followers = [0, 1].map(|server| follow(servers[server].new_client(), &batch));
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let made = || servers[0].client().get(&path).body["made"].as_u64().unwrap();
    wait_until("some codes are made by turns", || {
        made() > 0 && servers.iter().all(|server| metric(server, TURNS) > 0.0)
    });
    harm(&broken);
    if is_noticed {
        wait_until("it was noticed", || servers.iter().all(is_open));
    }
    let then = made();
    assert!(then < CODES, "the batch was too short");
    wait_until("more are made", || made() > then);
    mend(&broken);
    wait_until("Redis is in use again", || !servers.iter().any(is_open));
    let done = wait_for(servers[1].client(), &batch, "completed");
    assert_eq!((&done["made"], &done["abandoned"]), (&json!(CODES), &json!(0)));
    for follower in followers {
        check_told(&follower.join().unwrap(), CODES);
    }
    // Turns and progress are in use again.
    let before: Vec<f64> = servers.iter().map(|server| metric(server, TURNS)).collect();
    let batch = order(servers[1].client(), "bottle", CODES / 4);
    let followers = [0, 1].map(|server| follow(servers[server].new_client(), &batch));
    for follower in followers {
        check_told(&follower.join().unwrap(), CODES / 4);
    }
    for (server, before) in servers.iter().zip(before) {
        assert!(metric(server, TURNS) > before, "it has taken no turn");
    }
    assert!(
        servers.iter().any(|server| metric(server, PROGRESS) > 0.0),
        "nobody has shared a look"
    );
}

#[test]
fn a_batch_goes_on_while_redis_is_gone_and_after_it_comes_back_empty() {
    a_batch_goes_on(
        |servers| servers.tell("kill", "redis"),
        true,
        |servers| servers.tell("empty", "redis"),
    );
}

#[test]
fn a_batch_goes_on_when_redis_comes_back_from_an_old_snapshot() {
    a_batch_goes_on(
        |servers| servers.tell("kill", "redis"),
        true,
        |servers| servers.tell("restore", "redis"),
    );
}

#[test]
fn a_batch_goes_on_while_redis_does_not_answer() {
    a_batch_goes_on(
        |servers| servers.tell("pause", "redis"),
        true,
        |servers| servers.tell("resume", "redis"),
    );
}

#[test]
fn a_batch_goes_on_when_redis_forgets_everything() {
    let flush = |servers: &Servers| {
        let flushed = Command::new("redis-cli")
            .args(["-u", &servers.redis, "--no-auth-warning", "FLUSHALL"])
            .output()
            .expect("redis-cli runs");
        assert!(flushed.status.success(), "{flushed:?}");
    };
    a_batch_goes_on(flush, false, |_| {});
}
