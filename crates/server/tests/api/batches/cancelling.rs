//! Batches that are stopped.

use serde_json::{Value, json};
use ureq::http::Method;

use super::home;
use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Reply, wait_until};

#[test]
fn what_was_made_is_kept_or_made_void() {
    let server = home().start();
    let client = server.client();
    for (body, verdict) in [(json!({}), "genuine"), (json!({"void_reason": "misprint"}), "void")] {
        let batch = order(client, "bottle", 5_000_000);
        let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
        wait_until("some codes are made", || client.get(&path).body["made"].as_u64().unwrap() > 0);
        let cancelled = client.post(&format!("{path}/cancel"), &body).body;
        assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
        assert_eq!(cancelled["recalled"]["reason"], body["void_reason"], "{cancelled}");
        let code = &codes(client, &batch, "&limit=1")[0];
        let scan = client.post("/api/v1/scans", &json!({"type": "bottle", "code": code})).body;
        assert_eq!(scan["verdict"], verdict, "{scan}");
        assert_eq!(scan["void"]["reason"], body["void_reason"], "{scan}");
    }
}

#[test]
fn a_reason_must_be_one_that_can_be_shown() {
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    let batch = order(client, "bottle", 1000);
    let path = format!("/api/v1/batches/{}/cancel", batch["id"].as_str().unwrap());
    for body in [json!({"void_reason": ""}), json!({"void_reason": "a\u{7}"}), json!({"why": "x"})]
    {
        client.post(&path, &body).problem(422, "invalid_request");
    }
    assert_eq!(client.post(&path, &json!({"void_reason": null})).body["state"], "cancelled");
}

#[test]
fn who_ends_what_and_why_is_in_the_audit_log() {
    let home = home();
    let tokens = [("shop", "batch"), ("boss", "admin")]
        .map(|(name, scope)| home.create_key(&["--name", name, "--scope", scope]));
    let server = home.start();
    let [shop, boss] = tokens.map(|token| server.client_with(&token));
    let batch = wait_for(&shop, &order(&shop, "bottle", 10), "completed");
    let id = batch["id"].as_str().unwrap();
    let path = format!("/api/v1/batches/{id}");
    shop.post(&format!("{path}/cancel"), &json!({})).problem(409, "batch_ended");
    let code = &codes(&shop, &batch, "&from=9")[0];
    let void = format!("/api/v1/codes/bottle/{code}/void");
    assert_eq!(shop.post(&void, &json!({"reason": "torn"})).status, 200);
    let recall = boss.post(&format!("{path}/recall"), &json!({"reason": "misprint"}));
    assert_eq!(recall.status, 200);

    let log = boss.get(&format!("/api/v1/audit?subject={id}")).body;
    let deeds: Vec<_> = log["deeds"].as_array().unwrap().iter().collect();
    let names = ["action", "key_name"]
        .map(|field| deeds.iter().map(|deed| deed[field].as_str().unwrap()).collect::<Vec<_>>());
    assert_eq!(names[0], ["batch.recalled", "code.voided", "batch.downloaded"], "{log}");
    assert_eq!(names[1], ["boss", "shop", "shop"], "{log}");
    assert_eq!(deeds[0]["detail"], json!({"reason": "misprint"}));
    assert_eq!(deeds[1]["detail"], json!({"serial": batch["last_serial"], "reason": "torn"}));

    let other = order(&shop, "bottle", 5_000_000);
    let id = other["id"].as_str().unwrap();
    let body = json!({"void_reason": "misprint"});
    assert_eq!(shop.post(&format!("/api/v1/batches/{id}/cancel"), &body).status, 200);
    let log = boss.get(&format!("/api/v1/audit?subject={id}")).body;
    let deed = &log["deeds"][0];
    assert_eq!((&deed["action"], &deed["key_name"]), (&json!("batch.cancelled"), &json!("shop")));
    assert_eq!((&deed["detail"], &log["deeds"][1]), (&body, &json!(null)), "{log}");
}

fn post_with_key(client: &Client, path: &str, body: &Value, key: &str) -> Reply {
    let (headers, body) = ([("idempotency-key", key)], body.to_string());
    client.call(Method::POST, path, &headers, Some(body.as_bytes()))
}

#[test]
fn ending_something_twice_with_one_key_is_ending_it_once() {
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    let id = |batch: &Value| batch["id"].as_str().unwrap().to_owned();
    let queued = id(&order(client, "bottle", 1000));
    let made = order(client, "label", 10);
    let code = &codes(client, &made, "&limit=1")[0];
    for (path, subject, field, action) in [
        (format!("/api/v1/batches/{queued}/cancel"), &queued, "void_reason", "batch.cancelled"),
        (format!("/api/v1/codes/label/{code}/void"), &id(&made), "reason", "code.voided"),
        (format!("/api/v1/batches/{}/recall", id(&made)), &id(&made), "reason", "batch.recalled"),
    ] {
        let body = json!({field: "torn"});
        let first = post_with_key(client, &path, &body, action);
        let second = post_with_key(client, &path, &body, action);
        assert_eq!((first.status, second.status), (200, 200), "{first:?} {second:?}");
        assert_eq!(first.body, second.body);
        assert_eq!(first.header("idempotency-replayed"), None);
        assert_eq!(second.header("idempotency-replayed"), Some("true"));
        post_with_key(client, &path, &json!({field: "lost"}), action)
            .problem(422, "idempotency_key_reused");
        let log = client.get(&format!("/api/v1/audit?action={action}&subject={subject}")).body;
        assert_eq!(log["deeds"].as_array().unwrap().len(), 1, "{log}");
    }
}

#[test]
fn a_tenant_has_so_many_batches_under_way_and_no_more() {
    let home = home()
        .with("MINTAGE__BATCHES__WORKERS", "0")
        .with("MINTAGE__BATCHES__ACTIVE_PER_TENANT_MAX", "2");
    let server = home.start();
    let client = server.client();
    let batches = [order(client, "bottle", 1000), order(client, "bottle", 1000)];
    let body = json!({"type": "bottle", "count": 1000});
    let refused = client.post("/api/v1/batches", &body);
    let detail = refused.problem(409, "too_many_batches");
    assert!(detail.contains("has 2 batches under way, and may have 2"), "{detail}");
    // What is complete at once is not under way, and others have limits of their own.
    order(client, "label", 1000);
    let of_other = json!({"tenant": "OTHER", "type": "cap", "count": 1});
    assert_eq!(client.post("/api/v1/batches", &of_other).status, 202);
    let path = format!("/api/v1/batches/{}/cancel", batches[0]["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({})).status, 200);
    order(client, "bottle", 1000);
}
