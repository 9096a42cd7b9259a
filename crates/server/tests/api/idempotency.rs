//! `Idempotency-Key`: the same request gets the same answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use ureq::http::Method;

use crate::support::{Client, Deployment, Home, Reply, wait_until};

fn order(client: &Client, key: &str, body: &str) -> Reply {
    let headers = [("idempotency-key", key)];
    client.call(Method::POST, "/api/v1/ids", &headers, Some(body.as_bytes()))
}

#[test]
fn the_same_key_and_body_give_the_same_ids_also_after_a_restart() {
    let home = Home::new();
    let body = r#"{"type":"invoice","count":3}"#;
    let mut server = home.start();
    let first = order(server.client(), "order-1", body);
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None));
    let again = |client: &Client| {
        let again = order(client, "order-1", body);
        assert_eq!((again.status, &again.text), (200, &first.text));
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        assert_eq!(again.header("content-type"), Some("application/json"));
    };
    again(server.client());
    let other = order(server.client(), "order-2", body);
    assert!(other.ids().iter().all(|id| !first.ids().contains(id)), "another key is another order");

    let reply = order(server.client(), "order-1", r#"{"type":"invoice","count":4}"#);
    reply.problem(422, "idempotency_key_reused");
    let reply = order(server.client(), "order-1", r#"{"type":"invoice", "count":3}"#);
    reply.problem(422, "idempotency_key_reused");
    server.stop();
    server = home.start();
    again(server.client());
    server.kill();
    server = home.start();
    again(server.client());
    let reply = order(server.client(), "order-1", r#"{"type":"bottle"}"#);
    reply.problem(422, "idempotency_key_reused");
    let next = server.client().issue("invoice", 1).remove(0);
    assert!(next > other.ids()[2], "the answers that were repeated took no number");
}

#[test]
fn parallel_requests_with_one_key_do_the_work_once() {
    let home = Home::new();
    let server = home.start();
    let body = r#"{"type":"farmer","count":5000}"#;
    for round in 0..5 {
        let key = format!("round-{round}");
        let replies: Vec<Reply> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..4)
                .map(|_| {
                    let (client, key) = (server.new_client(), &key);
                    scope.spawn(move || order(&client, key, body))
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) =
            replies.into_iter().partition(|reply| reply.status == 200);
        assert!(!done.is_empty());
        assert!(done.iter().all(|reply| reply.text == done[0].text), "two answers to one order");
        for reply in refused {
            reply.problem(409, "request_in_flight");
            assert_eq!(reply.header("retry-after"), Some("1"));
        }
        assert_eq!(order(server.client(), &key, body).text, done[0].text);
    }
}

/// Whether the work was done, nobody knows; the client has to be able to order again.
#[test]
fn the_key_of_a_request_that_a_crash_cut_off_is_free_again() {
    let home = Home::new();
    let mut server = home.start();
    let body = r#"{"type":"farmer","count":10000}"#;
    let answered = AtomicUsize::new(0);
    let cut_off: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let (client, answered) = (server.new_client(), &answered);
                scope.spawn(move || {
                    for round in 0.. {
                        let key = format!("{number}-{round}");
                        let headers = [("idempotency-key", key.as_str())];
                        let body = Some(body.as_bytes());
                        let reply = client.try_call(Method::POST, "/api/v1/ids", &headers, body);
                        let Ok(reply) = reply else { return key };
                        assert_eq!(reply.status, 200, "{reply:?}");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    unreachable!("the server is killed")
                })
            })
            .collect();
        wait_until("some are answered", || answered.load(Ordering::Relaxed) > 4);
        server.kill_now();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    drop(server);
    server = home.start();
    for key in cut_off {
        // Among several instances it takes until the lease of the killed one has run out.
        wait_until("the key is free", || {
            let reply = order(server.client(), &key, body);
            if reply.status != 200 {
                reply.problem(409, "request_in_flight");
                assert_ne!(Deployment::of_this_run(), Deployment::Embedded);
            }
            reply.status == 200
        });
    }
}

#[test]
fn a_request_that_failed_can_be_tried_again() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let body = r#"{"type":"late"}"#;
    order(client, "k", body).problem(404, "unknown_type");
    order(client, "k", body).problem(404, "unknown_type");
    assert_eq!(client.put("/api/v1/types/late", &json!({"sequence": {}})).status, 201);
    let reply = order(client, "k", body);
    assert_eq!(reply.ids(), ["1"]);
    assert_eq!(order(client, "k", body).ids(), ["1"]);
    order(client, "bad", "{").problem(400, "malformed_json");
    assert_eq!(order(client, "bad", body).ids(), ["2"], "a failed request does not hold its key");
}

#[test]
fn keys_must_be_short_visible_text() {
    let home = Home::new();
    let server = home.start();
    let body = r#"{"type":"invoice"}"#;
    order(server.client(), &"k".repeat(256), body).problem(400, "invalid_idempotency_key");
    assert_eq!(order(server.client(), &"k".repeat(255), body).status, 200);
    for key in [&b""[..], b"   ", b"k\xff", "sch\u{f6}n".as_bytes()] {
        let mut request =
            b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_vec();
        request.extend_from_slice(b"content-length: 18\r\nidempotency-key: ");
        request.extend_from_slice(key);
        request.extend_from_slice(b"\r\n\r\n");
        request.extend_from_slice(body.as_bytes());
        let answer = server.raw(&request);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{key:?}: {answer}");
        assert!(answer.contains("invalid_idempotency_key"), "{answer}");
    }
    assert!(server.client().issue("invoice", 1)[0].ends_with("-000002"));
}

/// Callers cannot get at each other's answers.
#[test]
fn keys_of_different_callers_are_kept_apart() {
    let home = Home::new();
    let token = home.create_key(&["--name", "a", "--scope", "issue"]);
    let other = home.create_key(&["--name", "b", "--scope", "issue"]);
    let server = home.start();
    let body = r#"{"type":"bottle"}"#;
    let first = order(&server.client_with(&token), "same", body);
    let second = order(&server.client_with(&other), "same", body);
    assert_ne!(first.ids(), second.ids());
    assert_eq!(order(&server.client_with(&token), "same", body).text, first.text);
}
