//! Batches that are stopped.

use serde_json::json;

use super::home;
use crate::support::batches::{codes, order};
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
