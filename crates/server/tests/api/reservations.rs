//! `/api/v1/reservations`: an ID that is held until its document is there.

use serde_json::{Value, json};

use crate::support::sinks::{assign, directory, document, gaps, home, root, wait_for_files};
use crate::support::{Client, wait_until};

fn reserve(client: &Client, more: &Value) -> Value {
    let mut body = json!({"type": "order"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = client.post("/api/v1/reservations", &body);
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(reply.body["state"], "held");
    reply.body
}

fn path(reservation: &Value, rest: &str) -> String {
    format!("/api/v1/reservations/{}{rest}", reservation["reservation"].as_str().unwrap())
}

#[test]
fn a_held_id_gets_its_document() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let held = reserve(client, &json!({}));
    assert_eq!((&held["id"], &held["serial"]), (&json!("ORD-1"), &json!("1")));
    assert_eq!(client.get(&path(&held, "")).body, held);
    // Nobody else gets it.
    assert_eq!(assign(client, "order", &json!("other")), "ORD-2");
    let body = json!({"payload": {"n": 1}, "client_reference": "a"});
    let confirmed = client.post(&path(&held, "/confirm"), &body);
    assert_eq!((confirmed.status, &confirmed.body), (202, &json!({"id": "ORD-1"})));
    let files = wait_for_files(&root(&home).join("default/archive/order"), 2);
    assert_eq!(files["ORD-1"], json!({"n": 1}));
    assert_eq!(document(client, "ORD-1")["client_reference"], "a");
    // Again is the same; with something else it is not.
    assert_eq!(client.post(&path(&held, "/confirm"), &body).body, confirmed.body);
    client.post(&path(&held, "/confirm"), &json!({"payload": 2})).problem(409, "not_held");
    client.post(&path(&held, "/release"), &json!({})).problem(409, "not_held");
    assert_eq!(client.get(&path(&held, "")).body["state"], "confirmed");
    let other = reserve(client, &json!({}));
    let taken =
        client.post(&path(&other, "/confirm"), &json!({"payload": 5, "client_reference": "a"}));
    taken.problem(409, "reference_taken");
    assert!(gaps(client, "order").is_empty());
}

#[test]
fn an_id_that_is_given_up_or_forgotten_is_a_gap() {
    let server = home().start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let (released, expired) =
        (reserve(client, &json!({})), reserve(client, &json!({"hold_seconds": 1})));
    let reply = client.post(&path(&released, "/release"), &json!({}));
    assert_eq!((reply.status, &reply.body["state"]), (200, &json!("released")));
    assert_eq!(client.post(&path(&released, "/release"), &json!({})).body, reply.body);
    client.post(&path(&released, "/confirm"), &json!({"payload": 1})).problem(409, "not_held");
    wait_until("the time has run out", || {
        client.get(&path(&expired, "")).body["state"] == "expired"
    });
    client.post(&path(&expired, "/confirm"), &json!({"payload": 1})).problem(409, "not_held");
    let mut found: Vec<_> = gaps(client, "order")
        .iter()
        .map(|gap| format!("{} {}", gap["first_id"], gap["reason"]))
        .collect();
    found.sort();
    let expected = [r#""ORD-1" "reservation_released""#, r#""ORD-2" "reservation_expired""#];
    assert_eq!(found, expected);
    assert_eq!(assign(client, "order", &json!(1)), "ORD-3", "they are never issued again");
}

#[test]
fn what_cannot_be_held_is_refused() {
    let home = home();
    let key = home.create_key(&["--name", "other", "--scope", "issue", "--tenant", "PROJ"]);
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let (client, other) = (server.client_with(&admin), server.client_with(&key));
    let post = |body: Value| client.post("/api/v1/reservations", &body);
    post(json!({"type": "invoice"})).problem(422, "gapless");
    post(json!({"type": "event"})).problem(422, "invalid_request");
    post(json!({"type": "none"})).problem(404, "unknown_type");
    post(json!({"type": "order", "hold_seconds": 0})).problem(422, "invalid_request");
    post(json!({"type": "order", "hold_seconds": 86_401})).problem(422, "invalid_request");
    let held = reserve(&client, &json!({}));
    other.get(&path(&held, "")).problem(404, "not_found");
    other.post(&path(&held, "/release"), &json!({})).problem(404, "not_found");
    client.post(&path(&held, "/confirm"), &json!({"payload": 1})).problem(409, "no_sink");
    client.post(&path(&held, "/confirm"), &json!({})).problem(422, "invalid_request");
    client.get("/api/v1/reservations/1").problem(404, "not_found");
    client.get("/api/v1/reservations/x").problem(404, "not_found");
    assert_eq!(client.get(&path(&held, "")).body["state"], "held");
}
