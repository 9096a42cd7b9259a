//! Processes that only make codes.

use std::collections::HashSet;

use serde_json::json;
use test_services::Servers;

use crate::support::batches::{begins_soon, check_told, codes, follow, order, wait_for};
use crate::support::{Deployment, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

const CODES: u64 = 600_000;

on_every_cluster!(
    a_worker_makes_what_servers_take_orders_for_and_may_die,
    a_worker_begins_within_a_tenth_of_a_second,
    whoever_follows_a_batch_sees_past_the_death_of_its_worker,
    a_worker_has_no_api,
);

/// Servers here take orders and make nothing.
fn home(deployment: Deployment) -> Home {
    Home::on(deployment, Servers::shared())
        .with_config(CONFIG)
        .with("MINTAGE__BATCHES__CHUNK_CODES", "1000")
        .with("MINTAGE__BATCHES__WORKERS", "0")
}

fn a_worker_makes_what_servers_take_orders_for_and_may_die(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start().ready();
    let client = server.client();
    let batch = order(client, "bottle", CODES);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let first = home.start_worker();
    wait_until("some codes are made", || client.get(&path).body["made"].as_u64().unwrap() > 0);
    first.kill();
    let half = client.get(&path).body;
    assert!(half["state"] == "running" && half["made"].as_u64().unwrap() < CODES, "{half}");

    let second = home.start_worker();
    let done = wait_for(client, &batch, "completed");
    assert_eq!((&done["made"], &done["abandoned"]), (&json!(CODES), &json!(0)));
    let database = home.database().unwrap();
    let id = database.sql("SELECT id FROM id_types WHERE name = 'bottle'");
    let (first, last) = (&done["first_serial"], &done["last_serial"]);
    let rows = database.sql(&format!(
        "SELECT count(*), count(DISTINCT serial), count(DISTINCT id) FROM codes_{}_0 \
         WHERE serial BETWEEN {} AND {}",
        id.trim(),
        first.as_str().unwrap(),
        last.as_str().unwrap()
    ));
    assert_eq!(rows.trim(), format!("{CODES}|{CODES}|{CODES}"));
    let all = codes(client, &batch, "");
    assert_eq!(all.iter().collect::<HashSet<_>>().len() as u64, CODES);
    for code in all.iter().step_by(99_999) {
        let scan = client.post("/api/v1/scans", &json!({"type": "bottle", "code": code})).body;
        assert_eq!(scan["verdict"], "genuine", "{scan}");
    }
    let made = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("mintage_codes_made_total"));
        line.and_then(|line| line.split(' ').nth(1)).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(made(&client.get("/metrics").text), 0);
    assert!(made(&second.client().get("/metrics").text) > 0);
    second.stop();
}

/// The first of several orders may find a machine that is busy with something else.
fn a_worker_begins_within_a_tenth_of_a_second(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start().ready();
    let _worker = home.start_worker().ready();
    let client = server.client();
    assert!((0..5).any(|_| begins_soon(client, "bottle")));
}

fn whoever_follows_a_batch_sees_past_the_death_of_its_worker(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start().ready();
    let first = home.start_worker();
    let batch = order(server.client(), "bottle", CODES);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let follower = follow(server.new_client(), &batch);
    let made = || server.client().get(&path).body["made"].as_u64().unwrap();
    wait_until("some codes are made", || made() > 0);
    first.kill();
    let second = home.start_worker();
    check_told(&follower.join().unwrap(), CODES);
    second.stop();
}

fn a_worker_has_no_api(deployment: Deployment) {
    let home = home(deployment).with("MINTAGE__SERVER__LISTEN", "0.0.0.0:0");
    // Unlike a server, it starts beyond loopback before there is a key.
    let worker = home.start_worker();
    let client = worker.client();
    assert_eq!(client.get("/livez").status, 200);
    wait_until("the worker is ready", || client.get("/readyz").status == 200);
    client.get("/metrics").problem(401, "unauthorized");
    client.order(r#"{"type":"bottle"}"#).problem(404, "not_found");
    for path in ["/api/v1/batches", "/api/v1/types", "/docs", "/v1/idgenerator/health", "/"] {
        assert!(client.get(path).problem(404, "not_found").contains("mintage serve"));
    }
    let key = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let admin = worker.client_with(&key);
    wait_until("the key is known", || admin.get("/metrics").status == 200);
    worker.stop();
}

#[test]
fn a_worker_without_anything_to_do_is_refused() {
    let refused = |home: Home| {
        let output = home.run(&["worker"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let embedded = Home::embedded();
    let data = embedded.data();
    assert!(refused(embedded).contains("the embedded store belongs to one process"));
    assert!(!data.exists());
    let idle = Home::on(Deployment::Postgres, Servers::shared());
    assert!(refused(idle.with("MINTAGE__BATCHES__WORKERS", "0")).contains("batches.workers is 0"));
}
