//! What every call has in common: methods, paths, sizes, request IDs.

use std::io::{Read as _, Write as _};

use ureq::http::Method;

use crate::support::Home;

#[test]
fn a_wrong_method_is_405_and_says_which_are_right() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    for (method, path, allowed) in [
        (Method::GET, "/api/v1/ids", &["POST"][..]),
        (Method::PATCH, "/api/v1/ids", &["POST"]),
        (Method::DELETE, "/api/v1/ids/validate", &["POST"]),
        (Method::POST, "/api/v1/issuances", &["GET", "HEAD"]),
        (Method::POST, "/api/v1/types", &["GET", "HEAD"]),
        (Method::POST, "/api/v1/types/bottle", &["GET", "HEAD", "PUT", "DELETE"]),
        (Method::POST, "/api/v1/tenants/default", &["GET", "HEAD", "PUT", "DELETE"]),
        (Method::PUT, "/api/v1/keys", &["GET", "HEAD", "POST"]),
        (Method::GET, "/api/v1/keys/abc", &["DELETE"]),
        (Method::DELETE, "/api/v1/pools", &["GET", "HEAD"]),
        (Method::POST, "/metrics", &["GET", "HEAD"]),
        (Method::POST, "/docs", &["GET", "HEAD"]),
        (Method::OPTIONS, "/openapi.json", &["GET", "HEAD"]),
    ] {
        let body =
            matches!(method, Method::POST | Method::PUT | Method::PATCH).then_some(&b"{}"[..]);
        let reply = client.call(method.clone(), path, &[], body);
        let detail = reply.problem(405, "method_not_allowed");
        assert!(detail.contains(path) && detail.contains(method.as_str()), "{detail}");
        let mut allow: Vec<&str> =
            reply.header("allow").unwrap().split(',').map(str::trim).collect();
        let mut allowed = allowed.to_vec();
        allow.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(allow, allowed, "{method} {path}");
    }
    let answer =
        server.raw(b"BREW /api/v1/ids HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

/// Many clients send the body apart from the headers, and the next request on the same connection.
#[test]
fn a_body_that_nobody_reads_leaves_its_connection_usable() {
    let config = "id_generator: { id_types: { farmer_id: { id_length: 10 } } }";
    let home = Home::new().with_config(config);
    let key = home.create_key(&["--name", "k", "--scope", "issue", "--tenant", "default"]);
    let server = home.start().ready();
    for (request, status) in [
        ("PUT /api/v1/keys", 405),
        ("POST /nowhere", 404),
        ("POST /v1/idgenerator/farmer_id/id", 200),
        ("PUT /v1/idgenerator/farmer_id/id", 405),
        // By the router, and directly.
        ("DELETE /api/v1/types/bottle", 403),
        ("POST /api/v1/scans", 403),
    ] {
        for _ in 0..10 {
            let mut stream = server.connect();
            stream.set_nodelay(true).unwrap();
            let head = format!(
                "{request} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
                 content-length: 2\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // By now the server has seen it.
            assert_eq!(server.client().get("/livez").status, 200);
            let next = "{}GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(next.as_bytes()).unwrap();
            let mut answers = String::new();
            stream.read_to_string(&mut answers).unwrap();
            assert!(answers.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answers}");
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{request}: {answers}");
        }
    }
}

/// Whoever waits for leave to send the body is refused without being asked for it.
#[test]
fn a_body_that_nobody_wants_is_not_asked_for() {
    let home = Home::new();
    let server = home.start();
    let mut stream = server.connect();
    let head = "POST /nowhere HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n\
                content-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[test]
fn an_unknown_path_is_404() {
    let home = Home::new();
    let server = home.start();
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/ids/",
        "/api/v2/ids",
        "/API/v1/types",
        "/api/v1/types/bottle/more",
        "/api/v1/../../etc/passwd",
        "/api/v1/%2e%2e/types",
        "/livez/",
        "/favicon.ico",
    ] {
        server.client().get(path).problem(404, "not_found");
    }
    server.client().get("/api/v1/types/nothing").problem(404, "unknown_type");
    server.client().get("/api/v1/types/%ff").problem(422, "invalid_request");
    server.client().get("/api/v1/types/%00").problem(404, "unknown_type");
}

#[test]
fn a_body_that_is_too_large_is_413() {
    let home = Home::new().with("MINTAGE__SERVER__BODY_LIMIT_BYTES", "1024");
    let server = home.start();
    let body = |bytes: usize| {
        let rest = bytes - r#"{"type":"bottle"}"#.len();
        format!(r#"{{"type":"bottle"{}}}"#, " ".repeat(rest))
    };
    assert_eq!(server.client().order(&body(1024)).status, 200);
    let reply = server.client().order(&body(1025));
    assert!(reply.problem(413, "body_too_large").contains("1024"));
    let put =
        server.client().call(Method::PUT, "/api/v1/types/large", &[], Some(body(5000).as_bytes()));
    put.problem(413, "body_too_large");

    // The same where the length is not announced.
    let mut chunked = b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..3 {
        chunked.extend_from_slice(b"200\r\n");
        chunked.extend_from_slice(&[b' '; 0x200]);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer = server.raw(&chunked);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(server.client().issue("bottle", 1).len(), 1, "the server is well");
}

/// A client that announces more than it sends gets no ID.
#[test]
fn a_body_that_is_cut_off_orders_nothing() {
    let home = Home::new();
    let server = home.start();
    let mut stream = server.connect();
    let request =
        b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{\"type\":\"invoice\"}";
    stream.write_all(request).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    // Closed, or answered with a problem: either way no ID.
    let _ = stream.read_to_string(&mut answer);
    assert!(!answer.contains("INV-"), "{answer}");
    assert!(server.client().issue("invoice", 1)[0].ends_with("-000001"));
}

/// A client that stops in the middle of its body is answered when its time is over, and holds no
/// connection after that.
#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let home = Home::new().with("MINTAGE__SERVER__HEADER_TIMEOUT_SECONDS", "1");
    let server = home.start();
    for path in ["/api/v1/ids", "/api/v1/ids/validate"] {
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{{");
        let answer = server.raw(head.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("application/problem+json"), "{answer}");
        assert!(answer.contains("\"code\":\"body_too_slow\""), "{answer}");
    }
    assert!(server.client().issue("invoice", 1)[0].ends_with("-000001"));
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let home = Home::new().with("MINTAGE__SERVER__CONNECTIONS_MAX", "1");
    let server = home.start();
    let mut first = server.connect();
    first.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    first.read_exact(&mut [0; 12]).unwrap();
    std::thread::scope(|scope| {
        let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let others: Vec<_> = (0..3).map(|_| (server.connect(), request)).collect();
        let others: Vec<_> = others
            .into_iter()
            .map(|(mut stream, request)| {
                scope.spawn(move || {
                    stream.write_all(request).unwrap();
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).unwrap();
                    answer
                })
            })
            .collect();
        drop(first);
        for other in others {
            assert!(other.join().unwrap().starts_with("HTTP/1.1 200 "));
        }
    });
}

#[test]
fn garbage_on_the_line_is_400_at_most() {
    let home = Home::new();
    let server = home.start();
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\nbroken\r\n\r\n",
        b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /api/v1/ids HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    ] {
        let answer = server.raw(bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let mut long = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: ".to_vec();
    long.extend(std::iter::repeat_n(b'a', 8 << 20));
    let mut stream = server.connect();
    // The server may stop reading long before the end.
    let _ = stream.write_all(&long);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(server.client().get("/livez").status, 200);
    assert!(!server.stop().contains("panicked"));
}

#[test]
fn every_answer_carries_a_request_id() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let with = |id: &str, path: &str| {
        let reply = client.call(Method::GET, path, &[("x-request-id", id)], None);
        reply.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(with("abc-123", "/livez"), "abc-123");
    assert_eq!(with("abc-124", "/nothing"), "abc-124", "in a problem too");
    assert_eq!(with(&"x".repeat(128), "/livez"), "x".repeat(128));
    for unusable in ["with space", "", &"x".repeat(129)] {
        let id = with(unusable, "/livez");
        assert!(!id.is_empty() && id != unusable, "{unusable:?}");
    }
    let own: Vec<String> =
        (0..3).map(|_| client.get("/livez").header("x-request-id").unwrap().to_owned()).collect();
    assert!(own[0] != own[1] && own[1] != own[2] && own[0] != own[2], "{own:?}");
}
