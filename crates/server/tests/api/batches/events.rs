//! Progress as server-sent events.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use storage::{BatchStore as _, ClaimTerms, WorkerName, always};
use ureq::http::Method;

use super::{CONFIG, begin_to_read, home};
use crate::support::batches::{order, wait_for};
use crate::support::{Home, Server, wait_until};

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
    assert!(events.text.contains("event: end\nid: end\n"), "{}", events.text);
}

/// A browser's `EventSource` connects again and again, until it is told to stop.
#[test]
fn whoever_has_seen_the_end_is_told_to_stop() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 10), "completed");
    let path = format!("/api/v1/batches/{}/events", batch["id"].as_str().unwrap());
    let again = |last: &str| client.call(Method::GET, &path, &[("last-event-id", last)], None);
    let seen = again("end");
    assert_eq!((seen.status, &*seen.text), (204, ""), "{seen:?}");
    for last in ["1", "", "END"] {
        let reply = again(last);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.text.contains("event: end\n"), "{reply:?}");
    }
}

/// The rate and the time that is left change also while no chunk is finished.
#[test]
fn a_running_batch_is_told_of_twice_a_second() {
    let home = home();
    let server = home.start();
    let batch = order(server.client(), "bottle", 2_000_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("some codes are made", || {
        server.client().get(&path).body["made"].as_u64().unwrap() > 0
    });
    server.kill();
    // Nobody goes on with it.
    let server = home.with("MINTAGE__BATCHES__WORKERS", "0").start();
    is_told_of_twice_a_second(&server, &batch, "running");
}

/// Some codes have failed, and others are still made.
#[test]
fn a_batch_that_needs_attention_is_told_of_while_codes_are_made() {
    let home = Home::embedded().with_config(CONFIG).with("MINTAGE__BATCHES__CHUNK_CODES", "1000");
    let home = home.with("MINTAGE__BATCHES__WORKERS", "0");
    let server = home.start();
    let batch = order(server.client(), "bottle", 10_000);
    server.stop();
    make_one_chunk_and_lose_another(&home, batch["created_at"].as_str().unwrap());
    let server = home.start();
    is_told_of_twice_a_second(&server, &batch, "needs_attention");
}

fn make_one_chunk_and_lose_another(home: &Home, now: &str) {
    let now = now.parse::<Timestamp>().unwrap();
    let worker = WorkerName { instance: "elsewhere".to_owned(), number: 0 };
    let terms = ClaimTerms { silent: Duration::from_secs(60), attempts_max: 1, now };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = storage_sqlite::SqliteStore::open(&home.data()).unwrap();
        let chunk = store.claim_chunk(&worker, None, terms).await.unwrap().unwrap();
        assert!(store.finish_chunk(&chunk, always(now)).await.unwrap());
        let chunk = store.claim_chunk(&worker, None, terms).await.unwrap().unwrap();
        assert!(store.fail_chunk(&chunk, "lost", None, now).await.unwrap());
    });
}

#[track_caller]
fn is_told_of_twice_a_second(server: &Server, batch: &Value, state: &str) {
    let (_, stream) = begin_to_read(server, batch, "events");
    let lines = stream.lines().map(Result::unwrap);
    let events = lines.filter_map(|line| line.strip_prefix("data: ").map(ToOwned::to_owned));
    let mut arrived = Vec::new();
    for data in events.take(4) {
        arrived.push((Instant::now(), serde_json::from_str::<Value>(&data).unwrap()));
    }
    for two in arrived.windows(2) {
        let [(earlier, before), (later, after)] = two else { unreachable!("two of them") };
        assert_eq!((&before["state"], &after["state"]), (&json!(state), &json!(state)));
        assert_eq!(before["made"], after["made"]);
        assert_ne!(before["rate"], after["rate"], "{before}");
        // Twice as long as it takes, because machines are slow.
        assert!(*later - *earlier < Duration::from_secs(1), "{:?}", *later - *earlier);
    }
}

/// Otherwise a proxy in between takes it for dead.
#[test]
fn a_quiet_connection_gets_signs_of_life() {
    let home = home().with("MINTAGE__SERVER__HEARTBEAT_SECONDS", "1");
    // Nobody works here, so there is no news.
    let server = home.with("MINTAGE__BATCHES__WORKERS", "0").start();
    let batch = order(server.client(), "bottle", 1);
    let (_, stream) = begin_to_read(&server, &batch, "events");
    let lines = stream.lines().map(Result::unwrap);
    let told: Vec<String> =
        lines.filter(|line| line.starts_with(':') || line.starts_with("event:")).take(3).collect();
    assert_eq!(told, ["event: progress", ": still here", ": still here"]);
}

#[test]
fn one_tenant_does_not_take_the_room_of_all_followers() {
    // Nobody works here, so there is no end.
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    let batch = order(client, "bottle", 1);
    let body = json!({"tenant": "OTHER", "type": "cap", "count": 1});
    let other = client.post("/api/v1/batches", &body).body;
    let followers: Vec<_> = (0..64).map(|_| begin_to_read(&server, &batch, "events")).collect();
    assert!(followers.iter().all(|(head, _)| head.starts_with("HTTP/1.1 200 ")));
    let refused = client.get(&format!("/api/v1/batches/{}/events", batch["id"].as_str().unwrap()));
    assert!(refused.problem(503, "unavailable").contains("64 clients"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert!(begin_to_read(&server, &other, "events").0.starts_with("HTTP/1.1 200 "));
}
