//! Progress as server-sent events.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::home;
use crate::support::Server;
use crate::support::batches::order;

#[test]
fn progress_is_told_until_the_end() {
    let server = home().start();
    let client = server.client();
    let batch = order(client, "bottle", 20_000);
    let id = batch["id"].as_str().unwrap();
    let events = client.get(&format!("/api/v1/batches/{id}/events"));
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    let data: Vec<Value> = events
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let last = data.last().unwrap();
    assert_eq!((&last["state"], &last["made"]), (&json!("completed"), &json!(20_000)));
    assert!(data.windows(2).all(|two| two[0]["made"].as_u64() <= two[1]["made"].as_u64()));
    assert!(events.text.contains("event: end\n"), "{}", events.text);
}

/// Follows a batch, and returns when the head of the answer is there.
fn follow(server: &Server, batch: &Value) -> (String, BufReader<TcpStream>) {
    let mut stream = server.connect();
    let id = batch["id"].as_str().unwrap();
    let request = format!("GET /api/v1/batches/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    (head, stream)
}

#[test]
fn one_tenant_does_not_take_the_room_of_all_followers() {
    // Nobody works here, so there is no end.
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    let batch = order(client, "bottle", 1);
    let body = json!({"tenant": "OTHER", "type": "cap", "count": 1});
    let other = client.post("/api/v1/batches", &body).body;
    let followers: Vec<_> = (0..64).map(|_| follow(&server, &batch)).collect();
    assert!(followers.iter().all(|(head, _)| head.starts_with("HTTP/1.1 200 ")));
    let refused = client.get(&format!("/api/v1/batches/{}/events", batch["id"].as_str().unwrap()));
    assert!(refused.problem(503, "unavailable").contains("64 clients"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(follow(&server, &other).0.starts_with("HTTP/1.1 200 "));
}
