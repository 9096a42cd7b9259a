//! `/api/v1/batches`: codes are ordered, made in the background, and downloaded.

mod cancelling;
mod events;
mod files;
mod ranges;
mod working;

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use storage::AnswerStore as _;
use ureq::http::Method;

use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Home, Server, wait_until};

/// A sample type, one without rows, one that is small, and one of another tenant.
const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { name: coin, random: { alphabet: crockford32, length: 5 } }
  - { name: pin, random: { alphabet: digits, length: 4, allow_dense: true } }
  - { name: farmer, random: { alphabet: digits, length: 12, check: verhoeff, filters: openg2p } }
  - { name: order, sequence: {} }
  - { tenant: OTHER, name: cap, random: { alphabet: crockford32, length: 16 } }
";

fn home() -> Home {
    Home::new().with_config(CONFIG).with("MINTAGE__BATCHES__CHUNK_CODES", "1000")
}

/// Asks for something of a batch, and reads no more of the answer than its head.
fn begin_to_read(server: &Server, batch: &Value, what: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = server.connect();
    let id = batch["id"].as_str().unwrap();
    let request = format!("GET /api/v1/batches/{id}/{what} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    (head, stream)
}

#[test]
fn a_batch_is_ordered_made_and_downloaded() {
    let server = home().start();
    let client = server.client();
    let metadata = json!({"gtin": "09506000134352", "line": 3});
    let ordered = client.post(
        "/api/v1/batches",
        &json!({"type": "bottle", "count": 2500, "name": "spring", "metadata": metadata}),
    );
    assert_eq!(ordered.status, 202, "{ordered:?}");
    assert_eq!((&ordered.body["total"], &ordered.body["ledger"]), (&json!(2500), &json!("stored")));
    let batch = wait_for(client, &ordered.body, "completed");
    assert_eq!((&batch["made"], &batch["name"]), (&json!(2500), &json!("spring")));
    assert_eq!(batch["metadata"], metadata);
    assert!(batch["rate"].as_f64().unwrap() > 0.0 && batch["eta_seconds"].is_null(), "{batch}");
    assert!(batch["finished_at"].is_string() && batch["recalled"].is_null());

    let all = codes(client, &batch, "");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 2500);
    assert_eq!(codes(client, &batch, "&from=990&limit=20"), all[990..1010]);
    assert_eq!(codes(client, &batch, "&from=2499"), all[2499..]);
    assert!(codes(client, &batch, "&from=2500").is_empty());
    for code in [&all[0], &all[2499]] {
        let reply = client.post("/api/v1/ids/validate", &json!({"type": "bottle", "id": code}));
        assert_eq!(reply.body["valid"], true);
    }
    let listed = client.get("/api/v1/batches?type=bottle&state=completed").body;
    assert_eq!(listed["batches"][0]["id"], batch["id"]);
    assert!(listed["batches"][1].is_null() && listed["next"].is_null());
}

#[test]
fn a_derived_batch_of_a_billion_is_complete_at_once() {
    const COUNT: u64 = 1_000_000_000;
    let server = home().start();
    let client = server.client();
    let batch = order(client, "label", COUNT);
    assert_eq!((&batch["state"], &batch["made"]), (&json!("completed"), &json!(COUNT)), "{batch}");
    for at in [0, COUNT / 2, COUNT - 1] {
        let code = codes(client, &batch, &format!("&from={at}&limit=1")).remove(0);
        let scan = || client.post("/api/v1/scans", &json!({"type": "label", "code": code})).body;
        let (first, second) = (scan(), scan());
        assert_eq!((&first["verdict"], &first["batch"]), (&json!("genuine"), &batch["id"]));
        assert_eq!((&second["verdict"], &second["scans"]), (&json!("repeated"), &json!(2)));
    }
}

#[test]
fn a_tenant_has_limits_of_its_own() {
    let home = home()
        .with("MINTAGE__BATCHES__CODES_PER_TENANT_MAX", "500")
        .with("MINTAGE__BATCHES__WORKERS", "0");
    let server = home.start();
    let client = server.client();
    let path = "/api/v1/tenants/default";
    let order = |count| client.post("/api/v1/batches", &json!({"type": "bottle", "count": count}));
    let limits = json!({"codes_max": 2000, "active_batches_max": 1});
    let put = client.put(path, &limits).body;
    assert_eq!((&put["codes_max"], &put["active_batches_max"]), (&json!(2000), &json!(1)));
    assert!(order(2001).problem(409, "over_quota").contains("2000"));
    assert_eq!(order(1000).status, 202);
    assert!(order(1).problem(409, "too_many_batches").contains("may have 1"));
    client.put(path, &json!({"codes_max": 2000}));
    assert_eq!(order(1).status, 202);
    client.put(path, &json!({"codes_max": 0}));
    order(1).problem(409, "over_quota");
    client.put(path, &json!({}));
    assert!(order(1).problem(409, "over_quota").contains("500"), "what holds for everybody");
    for wrong in [json!({"codes_max": 1_u64 << 63}), json!({"active_batches_max": -1})] {
        client.put(path, &wrong).problem(422, "invalid_request");
    }
}

#[test]
fn orders_that_cannot_be_filled_are_refused_with_the_numbers() {
    let home = home().with("MINTAGE__BATCHES__CODES_PER_TENANT_MAX", "50000");
    let server = home.start();
    let client = server.client();
    let refused = |id_type: &str, count: u64, status, code| {
        let reply = client.post("/api/v1/batches", &json!({"type": id_type, "count": count}));
        reply.problem(status, code).to_owned()
    };
    assert!(refused("pin", 10_001, 409, "no_room").contains("10000"));
    // 32^5 codes, one in ten thousand.
    let dense = refused("coin", 3356, 409, "too_dense");
    assert!(dense.contains("3355") || dense.contains("33554432"), "{dense}");
    assert!(refused("bottle", 50_001, 409, "over_quota").contains("50000"));
    refused("bottle", 0, 422, "invalid_request");
    refused("bottle", 1_000_000_001, 422, "invalid_request");
    refused("order", 1, 422, "not_a_code_type");
    refused("farmer", 1, 422, "not_a_code_type");
    refused("nothing", 1, 404, "unknown_type");
    for body in [
        json!({"type": "bottle", "count": -1}),
        json!({"type": "bottle", "count": 1, "metadata": [1]}),
        json!({"type": "bottle", "count": 1, "name": ""}),
        json!({"type": "bottle", "count": 1, "name": "a\u{7}"}),
        json!({"type": "bottle", "count": 1, "color": "red"}),
    ] {
        client.post("/api/v1/batches", &body).problem(422, "invalid_request");
    }
    // Nothing of it was drawn.
    let batch = order(client, "bottle", 1);
    let serial = batch["first_serial"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(serial < 100_000, "{batch}");
}

#[test]
fn a_second_click_orders_once() {
    let server = home().start();
    let client = server.client();
    let body = json!({"type": "bottle", "count": 5}).to_string();
    let click = || {
        let headers = [("idempotency-key", "click-1")];
        client.call(Method::POST, "/api/v1/batches", &headers, Some(body.as_bytes()))
    };
    let (first, second) = (click(), click());
    assert_eq!((first.status, second.status), (202, 202));
    assert_eq!(first.body, second.body);
    assert_eq!(first.header("location"), second.header("location"));
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
}

/// The answer to an order is forgotten after a time, and the order is not.
#[test]
fn an_old_idempotency_key_never_swallows_a_new_order() {
    let home = Home::embedded().with_config(CONFIG);
    let call = |client: &Client, body: &Value| {
        let headers = [("idempotency-key", "click-1")];
        let body = body.to_string();
        client.call(Method::POST, "/api/v1/batches", &headers, Some(body.as_bytes()))
    };
    let body = json!({"type": "bottle", "count": 5, "name": "spring", "notify": []});
    let server = home.start();
    let first = call(server.client(), &body);
    assert_eq!(first.status, 202, "{first:?}");
    server.stop();
    forget_answers(&home);
    let server = home.start();
    for (field, value) in [
        ("count", json!(6)),
        ("type", json!("label")),
        ("name", json!("summer")),
        ("metadata", json!({"line": 3})),
        ("notify", Value::Null),
    ] {
        let mut other = body.clone();
        other[field] = value;
        call(server.client(), &other).problem(422, "idempotency_key_reused");
    }
    let of_another_tenant = json!({"tenant": "OTHER", "type": "cap", "count": 5});
    call(server.client(), &of_another_tenant).problem(422, "idempotency_key_reused");
    let again = call(server.client(), &body);
    assert_eq!((again.status, &again.body["id"]), (202, &first.body["id"]), "{again:?}");
    assert_eq!(server.client().get("/api/v1/batches").body["batches"].as_array().unwrap().len(), 1);
}

/// As if they had all expired.
fn forget_answers(home: &Home) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = storage_sqlite::SqliteStore::open(&home.data()).unwrap();
        assert!(store.purge_answers(Timestamp::MAX, 1000).await.unwrap() > 0);
    });
}

#[test]
fn tenants_see_their_own_batches_only() {
    let home = home();
    let key = home.create_key(&["--name", "shop", "--scope", "batch", "--tenant", "OTHER"]);
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let (shop, admin) = (server.client_with(&key), server.client_with(&admin));
    let foreign = wait_for(&admin, &order(&admin, "bottle", 1), "completed");
    let own = wait_for(&shop, &order(&shop, "cap", 1), "completed");
    let path = format!("/api/v1/batches/{}", foreign["id"].as_str().unwrap());
    shop.get(&path).problem(404, "not_found");
    shop.get(&format!("{path}/codes")).problem(404, "not_found");
    shop.get(&format!("{path}/events")).problem(404, "not_found");
    shop.post(&format!("{path}/cancel"), &json!({})).problem(404, "not_found");
    shop.post(&format!("{path}/recall"), &json!({"reason": "x"})).problem(404, "not_found");
    let listed = shop.get("/api/v1/batches").body;
    assert_eq!(listed["batches"].as_array().unwrap().len(), 1);
    assert_eq!(listed["batches"][0]["id"], own["id"]);
    assert_eq!(admin.get("/api/v1/batches").body["batches"].as_array().unwrap().len(), 2);
    shop.post("/api/v1/batches", &json!({"tenant": "default", "type": "bottle", "count": 1}))
        .problem(403, "wrong_tenant");
}

#[test]
fn lists_come_in_pages() {
    let server = home().start();
    let client = server.client();
    let ids: Vec<Value> = (0..5).map(|_| order(client, "bottle", 1)["id"].clone()).collect();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/api/v1/batches?limit=2{after}")).body;
        seen.extend(page["batches"].as_array().unwrap().iter().map(|batch| batch["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(seen, ids.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_batch_is_cancelled_and_what_was_not_made_is_explained() {
    // Nobody works here, so nothing is made.
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    let batch = order(client, "bottle", 3000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    client.get(&format!("{path}/codes")).problem(409, "batch_not_ready");
    let cancelled = client.post(&format!("{path}/cancel"), &json!({}));
    assert_eq!((&cancelled.body["state"], cancelled.status), (&json!("cancelled"), 200));
    assert_eq!(client.post(&format!("{path}/cancel"), &json!({})).status, 200);
    assert!(codes(client, &batch, "").is_empty());
    let serial = batch["first_serial"].as_str().unwrap();
    let history = client.history("bottle", &format!("serial={serial}"));
    assert_eq!(history["gaps"][0]["reason"], "batch_cancelled", "{history}");
    assert_eq!(history["gaps"][0]["count"], 3000);
}

/// With chunks as they are by default, of which several are being made.
#[test]
fn a_running_batch_stops_within_a_second() {
    let server = Home::new().with_config(CONFIG).start();
    let client = server.client();
    let batch = order(client, "bottle", 50_000_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("some codes are made", || client.get(&path).body["made"].as_u64().unwrap() > 0);
    let asked = Instant::now();
    let cancelled = client.post(&format!("{path}/cancel"), &json!({})).body;
    let took = asked.elapsed();
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    // Those who worked on it work on something else, and what they still had in hand came to nothing.
    let next = wait_for(client, &order(client, "bottle", 300_000), "completed");
    assert_eq!(client.get(&path).body["made"], cancelled["made"]);
    let made = cancelled["made"].as_u64().unwrap();
    assert_eq!(codes(client, &batch, "").len() as u64, made);
    assert_eq!(next["made"], 300_000);
    let history =
        client.history("bottle", &format!("serial={}", batch["last_serial"].as_str().unwrap()));
    assert_eq!(history["gaps"][0]["reason"], "batch_cancelled", "{history}");
}

#[test]
fn a_batch_goes_on_after_the_server_was_killed() {
    let home = home();
    let server = home.start();
    let batch = order(server.client(), "bottle", 200_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("some codes are made", || {
        server.client().get(&path).body["made"].as_u64().unwrap() > 0
    });
    // Gone before the next one wants the directory.
    server.kill();
    let server = home.start();
    let done = wait_for(server.client(), &batch, "completed");
    assert_eq!(done["made"], 200_000);
    let all = codes(server.client(), &done, "");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 200_000);
    for code in [&all[0], &all[100_000], &all[199_999]] {
        let scan = server.client().post("/api/v1/scans", &json!({"type": "bottle", "code": code}));
        assert_eq!(scan.body["verdict"], "genuine", "{scan:?}");
    }
}
