//! Batches that are stopped.

use serde_json::json;

use super::home;
use crate::support::batches::{codes, order, wait_for};
use crate::support::wait_until;

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
    for body in [json!({"void_reason": ""}), json!({"void_reason": "a\u{7}"}), json!({"why": "x"})] {
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
    let names = ["action", "key_name"].map(|field| {
        deeds.iter().map(|deed| deed[field].as_str().unwrap()).collect::<Vec<_>>()
    });
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
