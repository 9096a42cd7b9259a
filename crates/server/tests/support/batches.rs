//! Batches in tests.

use std::thread::{self, JoinHandle};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Client, wait_until};

/// Orders codes.
pub(crate) fn order(client: &Client, id_type: &str, count: u64) -> Value {
    let reply = client.post("/api/v1/batches", &json!({"type": id_type, "count": count}));
    assert_eq!(reply.status, 202, "{reply:?}");
    let path = format!("/api/v1/batches/{}", reply.body["id"].as_str().unwrap());
    assert_eq!(reply.header("location"), Some(&*path));
    reply.body
}

/// Waits until a batch is in a state, and returns it.
pub(crate) fn wait_for(client: &Client, batch: &Value, state: &str) -> Value {
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let mut last = Value::Null;
    wait_until(&format!("the batch is {state}"), || {
        last = client.get(&path).body;
        last["state"] == state
    });
    last
}

/// Whether somebody begins to work on an order within a tenth of a second.
pub(crate) fn begins_soon(client: &Client, id_type: &str) -> bool {
    let batch = wait_for(client, &order(client, id_type, 1000), "completed");
    let time = |name: &str| batch[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    time("started_at").duration_since(time("created_at")).as_millis() <= 100
}

/// The codes of a batch; `query` is for more parameters, each with `&` before it.
pub(crate) fn codes(client: &Client, batch: &Value, query: &str) -> Vec<String> {
    let id = batch["id"].as_str().unwrap();
    let reply = client.get(&format!("/api/v1/batches/{id}/codes?format=txt{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.text.lines().map(ToOwned::to_owned).collect()
}

/// What somebody who follows a batch is told, from now to its end.
pub(crate) fn follow(client: Client, batch: &Value) -> JoinHandle<Vec<Value>> {
    let path = format!("/api/v1/batches/{}/events", batch["id"].as_str().unwrap());
    thread::spawn(move || {
        let told = client.get(&path).text;
        let data = told.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    })
}

/// That somebody was told of steps in order, and of the end, when so many codes were made.
pub(crate) fn check_told(told: &[Value], codes: u64) {
    let made: Vec<u64> = told.iter().map(|told| told["made"].as_u64().unwrap()).collect();
    assert!(made.is_sorted() && made.len() > 1, "{made:?}");
    let last = told.last().unwrap();
    assert_eq!((&last["state"], &last["made"]), (&json!("completed"), &json!(codes)), "{last}");
}
