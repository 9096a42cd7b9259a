//! Starting and stopping: one process per directory, nothing lost, nobody left hanging.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::Method;

use crate::support::batches::{follow, order};
use crate::support::{Home, wait_until};

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let home = Home::embedded();
    let server = home.start();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("is in use by another mintage process"), "{message}");
    assert!(message.contains(home.data().to_str().unwrap()), "{message}");
    let message = home.fails(&["keys", "create", "--name", "x", "--scope", "admin"]);
    assert!(message.contains("--server"), "{message}");
    assert_eq!(server.client().issue("bottle", 1).len(), 1, "the first one does not notice");
    server.stop();
    home.start();
}

#[test]
fn a_port_that_is_taken_is_told() {
    let home = Home::new();
    let server = home.start();
    let address = server.url.strip_prefix("http://").unwrap();
    let other = Home::new().with("MINTAGE__SERVER__LISTEN", address);
    let (code, message) = other.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains(&format!("cannot listen on {address}")), "{message}");
}

#[test]
fn a_clean_stop_leaves_no_gap() {
    let home = Home::new();
    for round in 0..4_u64 {
        let server = home.start();
        let ids = server.client().issue("invoice", 3);
        let numbers: Vec<u64> = ids.iter().map(|id| id[9..].parse().unwrap()).collect();
        assert_eq!(numbers, [round * 3 + 1, round * 3 + 2, round * 3 + 3]);
        let log = server.stop();
        assert!(log.contains("shutting down") && log.contains("the engine has stopped"), "{log}");
    }
    let server = home.start();
    for serial in 1..=12 {
        let found = server.client().history("invoice", &format!("serial={serial}"));
        assert!(found["issuances"][0].is_object() && found["gaps"][0].is_null(), "{found}");
    }
}

/// There is news of a batch that is being made at every look.
#[test]
fn whoever_follows_a_batch_does_not_hold_up_a_stop() {
    let home = Home::new()
        .with("MINTAGE__BATCHES__CHUNK_CODES", "1000")
        .with("MINTAGE__SERVER__SHUTDOWN_SECONDS", "600");
    let server = home.start();
    let batch = order(server.client(), "bottle", 50_000_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    let follower = follow(server.new_client(), &batch);
    let made = || server.client().get(&path).body["made"].as_u64().unwrap();
    wait_until("some codes are made", || made() > 0);
    let since = Instant::now();
    server.stop();
    assert!(since.elapsed() < Duration::from_secs(60), "it took {:?}", since.elapsed());
    let told = follower.join().unwrap();
    assert_eq!(told.last().unwrap()["state"], "running", "the batch was too short");
}

/// Requests that were accepted are answered, and what they were given is in the log.
#[test]
fn sigterm_answers_what_is_under_way() {
    let home = Home::new();
    let mut server = home.start();
    let answered = AtomicUsize::new(0);
    let last: Vec<u64> = thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let (client, answered) = (server.new_client(), &answered);
                scope.spawn(move || {
                    let body = Some(&br#"{"type":"invoice","count":2000}"#[..]);
                    let mut last = 0;
                    // An answer is whole or there is none: a connection that was accepted and is
                    // then closed without a byte is the refusal of a server that is gone.
                    while let Ok(reply) = client.try_call(Method::POST, "/api/v1/ids", &[], body) {
                        assert_eq!(reply.status, 200, "{reply:?}");
                        let ids = reply.ids();
                        assert_eq!(ids.len(), 2000);
                        last = ids[1999][9..].parse().unwrap();
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    last
                })
            })
            .collect();
        wait_until("some requests are answered", || answered.load(Ordering::Relaxed) > 20);
        server.terminate();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(server.wait().success(), "{}", server.log());
    server = home.start();
    let next: u64 = server.client().issue("invoice", 1)[0][9..].parse().unwrap();
    let last = last.into_iter().max().unwrap();
    assert!(next > last, "no number comes again");
    for serial in [1, last / 2, last] {
        let found = server.client().history("invoice", &format!("serial={serial}"));
        assert!(found["issuances"][0].is_object(), "{serial}: {found}");
    }
}

/// A request whose body is still on its way when the server is told to stop.
#[test]
fn a_request_that_has_begun_is_finished() {
    let home = Home::new();
    let mut server = home.start();
    let mut stream = server.connect();
    let body = br#"{"type":"invoice"}"#;
    let head = format!(
        "POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body[..5]).unwrap();
    // The head was read once a later connection was answered.
    wait_until("the connection was accepted", || server.client().get("/livez").status == 200);
    server.terminate();
    wait_until("it stops listening", || {
        TcpStream::connect(&server.url["http://".len()..]).is_err()
    });
    stream.write_all(&body[5..]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("-000001\""), "{answer}");
    assert!(server.wait().success());
}

/// A client that never finishes does not hold up the end for longer than the limit.
#[test]
fn a_request_that_never_ends_is_cut_off() {
    let home = Home::new().with("MINTAGE__SERVER__SHUTDOWN_SECONDS", "1");
    let mut server = home.start();
    let mut stream = server.connect();
    stream
        .write_all(b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        .unwrap();
    wait_until("the connection was accepted", || server.client().get("/livez").status == 200);
    server.terminate();
    assert!(server.wait().success());
    assert!(server.log().contains("were cut off"), "{}", server.log());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[test]
fn a_client_that_dawdles_over_its_headers_is_cut_off() {
    let home = Home::new().with("MINTAGE__SERVER__HEADER_TIMEOUT_SECONDS", "1");
    let server = home.start();
    for begun in [
        &b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-slow: "[..],
        b"G",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"",
    ] {
        let mut stream = server.connect();
        stream.write_all(begun).unwrap();
        let mut answer = Vec::new();
        // Returns only when the server closes; the stream's own limit would be another error.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    assert_eq!(server.client().get("/livez").status, 200);
}

#[test]
fn a_missing_or_wrong_master_key_is_refused() {
    let home = Home::embedded();
    let server = home.start();
    let id = server.client().issue("bottle", 1).remove(0);
    server.stop();
    let file = home.data().join("master.key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(
        message.contains("master.key is missing") && message.contains("put it back"),
        "{message}"
    );
    assert!(!file.exists(), "a new key would hide the mistake");

    fs::write(&file, "0".repeat(64)).unwrap();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("the master key is not the right one"), "{message}");
    fs::write(&file, "not a key").unwrap();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("64 hexadecimal digits"), "{message}");

    fs::write(&file, key).unwrap();
    let server = home.start();
    let found = server.client().history("bottle", &format!("id={id}"));
    assert!(found["issuances"][0].is_object(), "{found}");
}

#[test]
fn a_directory_that_cannot_be_used_is_told() {
    let home = Home::embedded();
    fs::write(home.data(), "in the way").unwrap();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("cannot be written"), "{message}");
    fs::remove_file(home.data()).unwrap();
    fs::create_dir(home.data()).unwrap();
    fs::write(home.data().join("mintage.db"), "this is not a database, whatever its name").unwrap();
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("is not a mintage database"), "{message}");
}
