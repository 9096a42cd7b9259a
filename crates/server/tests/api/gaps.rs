//! `/api/v1/ids/gaps` and the history of one ID: every number is accounted for.

use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::sinks::{address, assign, directory, home, wait_for_state};
use crate::support::{Client, Deployment, wait_until};

/// Holds so many IDs of orders and gives them up.
fn lose(client: &Client, count: usize) {
    for _ in 0..count {
        let held = client.post("/api/v1/reservations", &json!({"type": "order"})).body;
        let held = held["reservation"].as_str().unwrap();
        let path = format!("/api/v1/reservations/{held}/release");
        assert_eq!(client.post(&path, &json!({})).status, 200);
    }
}

fn list(client: &Client, query: &str) -> Value {
    let reply = client.get(&format!("/api/v1/ids/gaps?type=order{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

fn history(client: &Client, id: &str) -> Value {
    let reply = client.get(&format!("/api/v1/ids/default/order/{id}/history"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

fn events(history: &Value) -> Vec<&str> {
    let events = history["events"].as_array().unwrap().iter();
    events.map(|event| event["event"].as_str().unwrap()).collect()
}

/// An ID may show another date than the one that its period begins with.
#[test]
fn gaps_tell_the_ids_that_were_given() {
    let server = home().start();
    let client = server.client();
    let sequence = json!({"template": "S-{yyyy}{mm}{dd}-{seq}", "reset": "yearly"});
    let put = client.put("/api/v1/types/slip", &json!({"sequence": sequence}));
    assert_eq!(put.status, 201, "{put:?}");
    let held = client.post("/api/v1/reservations", &json!({"type": "slip"})).body;
    let path = format!("/api/v1/reservations/{}/release", held["reservation"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({})).status, 200);
    let gaps = client.get("/api/v1/ids/gaps?type=slip").body;
    let gap = &gaps["gaps"][0];
    assert_eq!((&gap["first_id"], &gap["last_id"]), (&held["id"], &held["id"]));
    let csv = client.get("/api/v1/ids/gaps?type=slip&format=csv");
    assert!(csv.text.contains(held["id"].as_str().unwrap()), "{csv:?}");
}

#[test]
fn gaps_are_listed_with_reasons_and_totals() {
    let server = home().start();
    let client = server.client();
    lose(client, 5);
    let all = list(client, "");
    assert_eq!((&all["total"], &all["total_gaps"]), (&json!(5), &json!(5)));
    let gap = &all["gaps"][2];
    assert_eq!((&gap["first"], &gap["last"]), (&json!("3"), &json!("3")));
    assert_eq!((&gap["first_id"], &gap["count"]), (&json!("ORD-3"), &json!(1)));
    assert_eq!(gap["reason"], "reservation_released");
    assert!(gap["detected_at"].is_string() && gap["signed_off"].is_null(), "{gap}");
    assert_eq!(gap["lost_at"], gap["detected_at"], "somebody gave it up");
    let page = list(client, "&limit=2");
    assert_eq!((page["gaps"].as_array().unwrap().len(), &page["total"]), (2, &json!(5)));
    let rest = list(client, &format!("&after={}", page["next"].as_str().unwrap()));
    assert_eq!(rest["gaps"].as_array().unwrap().len(), 3);
    assert!(rest["next"].is_null());
    assert_eq!(list(client, "&from=2&to=3")["total"], 2);
    assert_eq!(list(client, "&reason=crash,reservation_released")["total"], 5);
    assert_eq!(list(client, "&reason=crash")["total"], 0);
    for query in ["&reason=bad", "&format=pdf", "&after=x", "&limit=0", "&from=3&to=2"] {
        client.get(&format!("/api/v1/ids/gaps?type=order{query}")).problem(422, "invalid_request");
    }
    client.get("/api/v1/ids/gaps?type=none").problem(404, "unknown_type");
}

#[test]
fn auditors_get_a_file_and_sign_gaps_off() {
    let home = home();
    let admin = home.create_key(&["--name", "auditor", "--scope", "admin"]);
    let server = home.start();
    let client = &server.client_with(&admin);
    lose(client, 3);
    let gap = list(client, "")["gaps"][1]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/ids/gaps/{gap}/sign-off");
    let signed = client.post(&path, &json!({"type": "order", "note": "=agreed, \"all\" of us"}));
    assert_eq!(signed.status, 200, "{signed:?}");
    assert_eq!(signed.body["signed_off"]["key_name"], "auditor");
    let again = client.post(&path, &json!({"type": "order", "note": "too late"}));
    assert_eq!(again.body["signed_off"], signed.body["signed_off"], "the first one stays");
    client.post(&path, &json!({"type": "order", "note": ""})).problem(422, "invalid_request");
    client.post(&path, &json!({"type": "invoice", "note": "x"})).problem(404, "not_found");
    let unknown = "/api/v1/ids/gaps/99999999/sign-off";
    client.post(unknown, &json!({"type": "order", "note": "x"})).problem(404, "not_found");

    let file = client.get("/api/v1/ids/gaps?type=order&format=csv&limit=1");
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8; header=present"));
    let lines: Vec<&str> = file.text.split("\r\n").collect();
    assert_eq!(lines.len(), 5, "a head, three gaps and nothing: {}", file.text);
    assert!(lines[0].starts_with("project,type,period,first,last,count,first_id"), "{}", lines[0]);
    let first = r#""default","order","","1","1","1","ORD-1","ORD-1","reservation_released""#;
    assert!(lines[1].starts_with(first), "{}", lines[1]);
    assert!(lines[2].ends_with(r#""'=agreed, ""all"" of us""#), "{}", lines[2]);
    assert!(lines[2].contains(r#""auditor""#), "{}", lines[2]);
    assert_eq!(lines[4], "");
}

#[test]
fn an_id_tells_its_whole_story() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({"types": ["order"]}));
    receiver.answer(422);
    let body = json!({"type": "order", "payload": 1, "client_reference": "a"});
    assert_eq!(client.post("/api/v1/documents", &body).body["id"], "ORD-1");
    wait_for_state(client, "ORD-1", "DEAD_LETTER");
    receiver.answer(204);
    let order = json!({"document": "ORD-1", "reason": "mended"});
    assert_eq!(client.post("/api/v1/dead-letters/retry", &order).body["settled"], 1);
    wait_for_state(client, "ORD-1", "COMMITTED");
    let story = history(client, "ORD-1");
    assert_eq!((&story["state"], &story["serial"]), (&json!("COMMITTED"), &json!("1")));
    let mut told = events(&story);
    assert_eq!(told[0], "assigned");
    told.sort_unstable();
    let expected =
        ["assigned", "attempt_failed", "committed", "gap_closed", "gap_found", "retry_ordered"];
    assert_eq!(told, expected);
    let retry = story["events"].as_array().unwrap().iter();
    let retry = retry.clone().find(|event| event["event"] == "retry_ordered").unwrap();
    assert_eq!(retry["detail"], "mended");

    lose(client, 1);
    let story = history(client, "ORD-2");
    assert_eq!((&story["state"], events(&story)), (&json!("GAP"), vec!["reserved", "gap_found"]));
    let issued = client.issue("order", 1).remove(0);
    let story = history(client, &issued);
    assert_eq!((&story["state"], events(&story)), (&json!("ISSUED"), vec!["issued"]));
    let story = history(client, "ORD-999999");
    assert_eq!((&story["state"], events(&story)), (&json!("UNKNOWN"), vec![]));
    // The year is part of what the number is.
    let bill = client.issue("bill", 1).remove(0);
    let bill_of = |year| {
        let id = format!("BILL-{year}-1");
        client.get(&format!("/api/v1/ids/default/bill/{id}/history")).body["state"].clone()
    };
    assert_eq!(bill_of(bill.split('-').nth(1).unwrap()), "ISSUED");
    assert_eq!(bill_of("1999"), "UNKNOWN");
    client.get("/api/v1/ids/default/order/bad/history").problem(422, "invalid_request");
    client.get("/api/v1/ids/default/none/ORD-1/history").problem(404, "unknown_type");
}

/// Whatever was drawn ahead when a process ended is explained by the next one.
#[test]
fn a_crash_leaves_explained_gaps_only() {
    let home = home();
    let server = home.start();
    directory(server.client(), "archive", &json!({}));
    let first = assign(server.client(), "order", &json!(1));
    let issued = server.client().issue("order", 3);
    server.kill();
    let server = home.start();
    let client = server.client();
    let next = assign(client, "order", &json!(2));
    let serial = |id: &str| id.strip_prefix("ORD-").unwrap().parse::<u64>().unwrap();
    assert!(serial(&first) < serial(&issued[0]) && serial(&issued[2]) < serial(&next));
    // What is in a list in Redis is still there for whoever asks.
    let in_redis = Deployment::of_this_run() == Deployment::PostgresAndRedis;
    for passed in (serial(&first)..serial(&next)).filter(|_| !in_redis) {
        let id = format!("ORD-{passed}");
        wait_until(&format!("{id} is explained"), || history(client, &id)["state"] != "UNKNOWN");
    }
    let untracked = list(client, "&reason=untracked_loss");
    assert_eq!(untracked["total"], 0, "{untracked}");
}
