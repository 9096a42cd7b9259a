//! Bodies that are large, slow, or not wanted.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::sinks::{directory, home};
use crate::support::{Home, Server, wait_until};

/// Begins a request with a body of so many bytes.
fn begin(server: &Server, path: &str, headers: &str, bytes: usize) -> TcpStream {
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    answers
}

/// An order for a document of about so many bytes.
fn document(bytes: usize) -> Value {
    json!({"type": "order", "payload": "x".repeat(bytes)})
}

/// Whoever may not send documents, or too many, is refused before anything of the body is read.
#[test]
fn a_body_of_documents_is_read_for_those_who_may_send_it() {
    let home = home().with("MINTAGE__SERVER__HEADER_TIMEOUT_SECONDS", "1");
    let scan = home.create_key(&["--name", "scan", "--scope", "scan"]);
    let rate = ["--name", "slow", "--scope", "issue", "--requests-per-second", "1"];
    let slow = home.create_key(&rate);
    let server = home.start();
    let ask = |path: &str, key: &str| {
        // Who waits to be asked for the body is asked when somebody begins to read it.
        let headers = format!("authorization: Bearer {key}\r\nexpect: 100-continue\r\n");
        rest(begin(&server, path, &headers, 1_000_000))
    };
    for path in ["/api/v1/documents", "/api/v1/reservations/1/confirm"] {
        let answer = ask(path, &scan);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        wait_until("the key is over its rate", || {
            server.client_with(&slow).get("/api/v1/documents?type=order");
            ask(path, &slow).starts_with("HTTP/1.1 429 ")
        });
    }
}

/// As any other that nobody reads, up to what the path takes.
#[test]
fn a_large_body_that_nobody_reads_leaves_its_connection_usable() {
    let home = home();
    let key = home.create_key(&["--name", "scan", "--scope", "scan"]);
    let server = home.start();
    let body = " ".repeat(3 << 20);
    for path in ["/api/v1/documents", "/api/v1/reservations/1/confirm"] {
        let headers = format!("authorization: Bearer {key}\r\n");
        let mut stream = begin(&server, path, &headers, body.len());
        stream.write_all(body.as_bytes()).unwrap();
        let next = "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(next.as_bytes()).unwrap();
        let answers = rest(stream);
        assert!(answers.starts_with("HTTP/1.1 403 "), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{answers}");
    }
}

#[test]
fn bodies_that_take_too_much_together_are_refused() {
    let home = home()
        .with("MINTAGE__DOCUMENTS__BODY_BYTES_MAX", "1048576")
        .with("MINTAGE__SERVER__BODIES_BYTES_MAX", "1048576");
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    assert_eq!(client.post("/api/v1/documents", &document(500_000)).status, 202);
    let mut last = None;
    // Of two that come at once, either may be the one for which there is no room.
    wait_until("one is there and another refused", || {
        let mut large = begin(&server, "/api/v1/documents", "", 1_000_000);
        large.write_all(" ".repeat(900_000).as_bytes()).unwrap();
        let reply = client.post("/api/v1/documents", &document(500_000));
        let is_refused = reply.status != 202;
        last = Some((large, reply));
        is_refused
    });
    let (large, refused) = last.unwrap();
    refused.problem(503, "too_many_bodies");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    // Small ones always have room.
    assert_eq!(client.post("/api/v1/documents", &document(1000)).status, 202);
    // Nobody goes on with it.
    drop(large);
    wait_until("there is room again", || {
        client.post("/api/v1/documents", &document(500_000)).status == 202
    });
}

/// It is silence that is not waited for, not a slow line.
#[test]
fn a_body_may_take_longer_than_a_client_may_be_silent() {
    let home = Home::new().with("MINTAGE__SERVER__HEADER_TIMEOUT_SECONDS", "1");
    let server = home.start();
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let head = "POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1500) {
        stream.write_all(b"1\r\n \r\n").unwrap();
        // A moment, so that it does not all come at once.
        assert_eq!(server.client().get("/livez").status, 200);
    }
    stream.write_all(b"12\r\n{\"type\":\"invoice\"}\r\n0\r\n\r\n").unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("INV-"), "{answer}");
}
