//! Who may do what, and what is never told.

use serde_json::json;

use super::keys::create;
use crate::support::{Client, Home, Reply};

const ORDER: &str = r#"{"type":"bottle"}"#;

#[test]
fn as_soon_as_there_is_a_key_a_key_is_needed() {
    let home = Home::new();
    let mut server = home.start();
    assert_eq!(server.client().order(ORDER).status, 200, "open on loopback");
    server.stop();
    let token = home.create_key(&["--name", "shop", "--scope", "issue"]);
    server = home.start().ready();
    let reply = server.client().order(ORDER);
    reply.problem(401, "unauthorized");
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    for path in [
        "/api/v1/types",
        "/api/v1/pools",
        "/api/v1/keys",
        "/metrics",
        "/api/v1/issuances?type=bottle&serial=1",
    ] {
        server.client().get(path).problem(401, "unauthorized");
    }
    let reply = server.client().post("/v1/idgenerator/farmer/id", &json!({}));
    assert_eq!(reply.status, 401, "the compatible routes are no way around it");
    for path in ["/livez", "/readyz", "/docs", "/openapi.json", "/v1/idgenerator/health"] {
        assert_eq!(server.client().get(path).status, 200, "{path}");
    }
    assert_eq!(server.client_with(&token).order(ORDER).status, 200);
    let reply = server.client_with(&token).call(
        ureq::http::Method::POST,
        "/v1/idgenerator/farmer/id",
        &[],
        Some(b""),
    );
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// Who made a key wanted the server shut; that the key is gone does not open it again.
#[test]
fn a_server_does_not_open_again_when_its_keys_end() {
    let home = Home::new();
    let token = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let short = token.split('_').nth(1).unwrap();
    assert_eq!(server.client_with(&token).delete(&format!("/api/v1/keys/{short}")).status, 200);
    server.client().order(ORDER).problem(401, "unauthorized");
    server.client_with(&token).order(ORDER).problem(401, "unauthorized");
}

/// A browser on this machine must not lend the open server to the pages that it shows.
#[test]
fn an_open_server_refuses_other_sites() {
    let home = Home::new();
    let server = home.start();
    let with = |headers: &[(&str, &str)]| {
        let body = Some(ORDER.as_bytes());
        server.client().call(ureq::http::Method::POST, "/api/v1/ids", headers, body)
    };
    for headers in [
        [("origin", "https://evil.example")],
        [("origin", "http://localhost.evil.example")],
        [("origin", "null")],
        [("host", "evil.example")],
        [("host", "evil.example:8080")],
    ] {
        with(&headers).problem(403, "cross_site");
    }
    for headers in [
        [("origin", "http://localhost:3000")],
        [("origin", "http://127.0.0.1")],
        [("host", "localhost")],
        [("host", "[::1]:80")],
    ] {
        assert_eq!(with(&headers).status, 200, "{headers:?}");
    }
}

#[test]
fn only_the_whole_key_opens() {
    let home = Home::new();
    let token = home.create_key(&["--name", "shop", "--scope", "issue"]);
    let server = home.start();
    let (short, secret) = token["mtg_".len()..].split_once('_').unwrap();
    let wrong = [
        format!("mtg_{short}_"),
        format!("mtg_{short}"),
        format!("mtg__{secret}"),
        format!("mtg_{short}_{}", &secret[1..]),
        format!("mtg_{short}_{secret}x"),
        format!("mtg_{short}_{}", secret.to_uppercase()),
        format!("MTG_{short}_{secret}"),
        format!("mtg_00000000_{secret}"),
        secret.to_owned(),
        "x".to_owned(),
        "x".repeat(5000),
    ];
    for wrong in wrong {
        let reply = server.client_with(&wrong).order(ORDER);
        let detail = reply.problem(401, "unauthorized");
        assert!(!detail.contains(secret) && !detail.contains(short), "{detail}");
    }
    let with = |value: &str| {
        let headers = [("authorization", value)];
        let body = Some(ORDER.as_bytes());
        server.client().call(ureq::http::Method::POST, "/api/v1/ids", &headers, body)
    };
    for value in ["", "Bearer", "Basic dXNlcjpwYXNz", &token, &format!("Token {token}")] {
        let reply = with(value);
        // The body may not have been read.
        assert_eq!(reply.header("connection"), Some("close"));
        reply.problem(401, "unauthorized");
    }
    assert_eq!(with(&format!("bearer {token}")).status, 200, "the scheme has no case");
}

#[test]
fn a_key_does_what_its_scopes_say() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let issue = home.create_key(&["--name", "issue", "--scope", "issue"]);
    let scan = home.create_key(&["--name", "scan", "--scope", "scan", "--scope", "batch"]);
    let server = home.start();
    let (admin, issue, scan) =
        (server.client_with(&admin), server.client_with(&issue), server.client_with(&scan));
    let spec = json!({"snowflake": {}});
    let key = json!({"name": "x", "scopes": ["admin"]});
    let refused = |reply: Reply, scope: &str| {
        assert!(reply.problem(403, "missing_scope").contains(scope));
    };
    for client in [&issue, &scan] {
        refused(client.put("/api/v1/types/x", &spec), "admin");
        refused(client.delete("/api/v1/types/bottle"), "admin");
        refused(client.get("/api/v1/tenants"), "admin");
        refused(client.put("/api/v1/tenants/x", &json!({})), "admin");
        refused(client.delete("/api/v1/tenants/x"), "admin");
        refused(client.get("/api/v1/keys"), "admin");
        refused(client.post("/api/v1/keys", &key), "admin");
        refused(client.delete("/api/v1/keys/x"), "admin");
        refused(client.get("/api/v1/issuances?type=bottle&serial=1"), "admin");
        refused(client.get("/metrics"), "admin");
    }
    refused(scan.order(ORDER), "issue");
    refused(scan.post("/api/v1/ids/validate", &json!({"type": "bottle", "id": "1"})), "issue");
    refused(scan.get("/api/v1/types"), "issue");
    refused(scan.get("/api/v1/pools"), "issue");
    for client in [&admin, &issue] {
        assert_eq!(client.order(ORDER).status, 200);
        assert_eq!(client.get("/api/v1/types").status, 200);
        assert_eq!(client.get("/api/v1/pools").status, 200);
    }
    assert_eq!(admin.get("/metrics").status, 200);
}

#[test]
fn a_key_of_one_tenant_neither_sees_nor_uses_another() {
    let home = Home::new().with_config(
        r#"
id_types:
  - { tenant: A, name: order, sequence: { template: "A-{seq}" } }
  - { tenant: B, name: order, sequence: { template: "B-{seq}" } }
  - { tenant: B, name: secret, sequence: { template: "S-{seq}" } }
"#,
    );
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let of_a = home.create_key(&["--name", "a", "--scope", "admin", "--tenant", "A"]);
    let of_b = home.create_key(&["--name", "b", "--scope", "admin", "--tenant", "B"]);
    let server = home.start();
    let (all, a) = (server.client_with(&admin), server.client_with(&of_a));
    assert_eq!(a.order(r#"{"type":"order"}"#).ids(), ["A-1"], "the tenant comes from the key");
    assert_eq!(a.order(r#"{"type":"order","tenant":"A"}"#).ids(), ["A-2"]);
    a.order(r#"{"type":"order","tenant":"B"}"#).problem(403, "wrong_tenant");
    a.order(r#"{"type":"order","tenant":"default"}"#).problem(403, "wrong_tenant");
    a.order(r#"{"type":"secret"}"#).problem(404, "unknown_type");
    let order = json!({"type": "order", "tenant": "B", "id": "B-1"});
    a.post("/api/v1/ids/validate", &order).problem(403, "wrong_tenant");

    for path in [
        "/api/v1/types?tenant=B",
        "/api/v1/types/secret?tenant=B",
        "/api/v1/pools?tenant=B",
        "/api/v1/issuances?tenant=B&type=order&serial=1",
        "/api/v1/tenants/B",
        "/metrics",
    ] {
        a.get(path).problem(403, "wrong_tenant");
    }
    let spec = json!({"sequence": {"template": "X-{seq}"}});
    a.put("/api/v1/types/x?tenant=B", &spec).problem(403, "wrong_tenant");
    let in_body = json!({"tenant": "B", "sequence": {"template": "X-{seq}"}});
    a.put("/api/v1/types/x", &in_body).problem(403, "wrong_tenant");
    a.put("/api/v1/types/x?tenant=A", &in_body).problem(403, "wrong_tenant");
    a.delete("/api/v1/types/secret?tenant=B").problem(403, "wrong_tenant");
    a.put("/api/v1/tenants/A", &json!({"requests_per_second": 9})).problem(403, "wrong_tenant");
    a.delete("/api/v1/tenants/B").problem(403, "wrong_tenant");
    for path in ["/api/v1/types", "/api/v1/pools", "/api/v1/tenants", "/api/v1/keys"] {
        let shown = a.get(path).text;
        assert!(!shown.contains("\"B\"") && !shown.contains("secret"), "{path}: {shown}");
        assert!(all.get(path).text.contains("\"B\""), "{path}");
    }

    // Nor can it make itself a key that does, or revoke one that is not its own.
    let order = json!({"name": "more", "scopes": ["admin"], "tenant": "B"});
    a.post("/api/v1/keys", &order).problem(403, "wrong_tenant");
    let own = create(&server, &of_a, &json!({"name": "more", "scopes": ["admin"]}));
    assert_eq!(server.client_with(&own).order(r#"{"type":"order"}"#).ids(), ["A-3"]);
    server.client_with(&own).order(r#"{"type":"order","tenant":"B"}"#).problem(403, "wrong_tenant");
    for other in [&of_b, &admin] {
        let short = other.split('_').nth(1).unwrap();
        a.delete(&format!("/api/v1/keys/{short}")).problem(404, "not_found");
    }
    assert_eq!(all.order(r#"{"type":"order","tenant":"B"}"#).ids(), ["B-1"]);
    let idgenerator = a.call(ureq::http::Method::POST, "/v1/idgenerator/secret/id", &[], Some(b""));
    assert_eq!(idgenerator.status, 404);
}

#[test]
fn a_key_ends_when_it_expires() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let past = ["--name", "old", "--scope", "issue", "--expires-at", "2020-01-01T00:00:00Z"];
    let expired = home.create_key(&past);
    let server = home.start();
    let reply = server.client_with(&expired).order(ORDER);
    assert!(reply.problem(401, "unauthorized").contains("expired"));
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    let order = json!({"name": "x", "scopes": ["issue"], "expires_at": "2020-01-01T00:00:00Z"});
    let expired = create(&server, &admin, &order);
    server.client_with(&expired).order(ORDER).problem(401, "unauthorized");
    let order = json!({"name": "x", "scopes": ["issue"], "expires_at": "2999-01-01T00:00:00Z"});
    assert_eq!(server.client_with(&create(&server, &admin, &order)).order(ORDER).status, 200);
}

/// Calls until the limit is reached, which it is soon, and returns the refusal.
fn until_refused(clients: &[&Client]) -> Reply {
    let mut replies = clients.iter().cycle().take(500).map(|client| client.order(ORDER));
    replies.find(|reply| reply.status != 200).expect("the limit is reached")
}

#[test]
fn requests_beyond_the_limit_of_a_key_are_429() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let limit = ["--name", "slow", "--scope", "issue", "--requests-per-second", "1"];
    let slow = home.create_key(&limit);
    let server = home.start();
    let slow = server.client_with(&slow);
    let reply = slow.order(ORDER);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("ratelimit-policy"), Some("\"key\";q=1;w=1"));
    assert_eq!(reply.header("ratelimit"), Some("\"key\";r=0;t=0"));
    let reply = until_refused(&[&slow]);
    reply.problem(429, "too_many_requests");
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("ratelimit-policy"), Some("\"key\";q=1;w=1"));
    assert_eq!(reply.header("ratelimit"), Some("\"key\";r=0;t=1"));
    let admin = server.client_with(&admin);
    let reply = admin.order(ORDER);
    assert_eq!((reply.status, reply.header("ratelimit")), (200, None), "the others are not slowed");
}

#[test]
fn the_configured_limit_is_for_keys_without_their_own() {
    let home = Home::new().with("MINTAGE__SECURITY__REQUESTS_PER_SECOND", "1");
    let slow = home.create_key(&["--name", "slow", "--scope", "issue"]);
    let limit = ["--name", "fast", "--scope", "issue", "--requests-per-second", "1000000"];
    let fast = home.create_key(&limit);
    let server = home.start();
    until_refused(&[&server.client_with(&slow)]).problem(429, "too_many_requests");
    let fast = server.client_with(&fast);
    assert!((0..50).all(|_| fast.order(ORDER).status == 200));
}

#[test]
fn the_keys_of_a_tenant_share_its_limit() {
    let home = Home::new().with_config(
        "
tenants: [{ name: A, requests_per_second: 1 }]
id_types:
  - { tenant: A, name: bottle, snowflake: {} }
  - { tenant: B, name: bottle, snowflake: {} }
",
    );
    let key = |name: &str, tenant: &str| {
        home.create_key(&["--name", name, "--scope", "issue", "--tenant", tenant])
    };
    let (first, second, other) = (key("a1", "A"), key("a2", "A"), key("b", "B"));
    let server = home.start();
    let (first, second, other) =
        (server.client_with(&first), server.client_with(&second), server.client_with(&other));
    let reply = until_refused(&[&first, &second]);
    reply.problem(429, "too_many_requests");
    assert!(reply.header("retry-after").is_some());
    assert!((0..50).all(|_| other.order(ORDER).status == 200), "the other tenant is not slowed");
}

#[test]
fn beyond_loopback_a_key_comes_first() {
    let home = Home::new().with("MINTAGE__SERVER__LISTEN", "0.0.0.0:0");
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("refusing to listen on 0.0.0.0:0 without API keys"), "{message}");
    assert!(message.contains("mintage keys create"), "{message}");
    let expired = ["--name", "x", "--scope", "admin", "--expires-at", "2020-01-01T00:00:00Z"];
    home.create_key(&expired);
    assert_eq!(home.start_refused().0, Some(1), "a key that does not work is none");
    let token = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    server.client().order(ORDER).problem(401, "unauthorized");
    assert_eq!(server.client_with(&token).order(ORDER).status, 200);
    // With the last key gone it stays shut.
    let short = token.split('_').nth(1).unwrap();
    assert_eq!(server.client_with(&token).delete(&format!("/api/v1/keys/{short}")).status, 200);
    server.client().order(ORDER).problem(401, "unauthorized");
}

#[test]
fn authentication_can_be_required_on_loopback_and_off_only_there() {
    let home = Home::new().with("MINTAGE__SECURITY__AUTHENTICATION", "required");
    let server = home.start();
    server.client().order(ORDER).problem(401, "unauthorized");
    server.stop();
    let home = Home::new()
        .with("MINTAGE__SECURITY__AUTHENTICATION", "off")
        .with("MINTAGE__SERVER__LISTEN", "0.0.0.0:0");
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("security.authentication"), "{message}");
}

/// Tokens that come with a deployment work from the first moment, and are no less secret.
#[test]
fn keys_from_the_configuration() {
    let token = "mtg_deploy01_0123456789abcdefghjkmnpq";
    let keys = format!("[{{ name: deploy, token: {token}, scopes: [issue] }}]");
    let home = Home::new()
        .with("MINTAGE__SERVER__LISTEN", "0.0.0.0:0")
        .with("MINTAGE__LOG__LEVEL", "trace")
        .with("MINTAGE__KEYS", &keys);
    for _ in 0..2 {
        let server = home.start();
        server.client().order(ORDER).problem(401, "unauthorized");
        assert_eq!(server.client_with(token).order(ORDER).status, 200);
        server.client_with(token).get("/api/v1/keys").problem(403, "missing_scope");
        let log = server.stop();
        assert!(!log.contains("0123456789abcdef"), "{log}");
    }
    let shown = home.ok(&["config", "show"]) + &home.ok(&["config", "show", "--json"]);
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
    assert_eq!(home.ok(&["keys", "list"]).matches("deploy01").count(), 1, "made once");
}

#[test]
fn secrets_are_never_logged_or_shown() {
    let master = "5a".repeat(31) + "c3";
    let home = Home::new()
        .with("MINTAGE__LOG__LEVEL", "trace")
        .with("MINTAGE__LOG__REQUESTS", "true")
        .with("MINTAGE__SECURITY__MASTER_KEY", &master);
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let order = json!({"name": "shop", "scopes": ["issue"]});
    let made = create(&server, &admin, &order);
    let client = server.client_with(&made);
    let ids = [client.issue("bottle", 2), client.issue("farmer", 2)].concat();
    let wrong = format!("{made}x");
    server.client_with(&wrong).order(ORDER).problem(401, "unauthorized");
    client.post("/api/v1/ids/validate", &json!({"type": "bottle", "id": ids[0]}));
    server.client_with(&admin).history("bottle", &format!("id={}", ids[0]));
    server.client_with(&admin).get("/metrics");
    let seen_by_clients = ["/metrics", "/v1/idgenerator/config", "/api/v1/keys", "/api/v1/types"]
        .map(|path| server.client_with(&admin).get(path).text)
        .concat();
    let log = server.stop();
    assert!(log.contains("/api/v1/ids"), "requests are logged: {log}");
    let shown = home.ok(&["config", "show"]) + &home.ok(&["config", "show", "--json"]);
    let secrets = [&admin, &made].map(|token| token.rsplit('_').next().unwrap().to_owned());
    for secret in secrets.iter().chain([&master]).chain(&ids) {
        for (place, text) in [("log", &log), ("config", &shown), ("answers", &seen_by_clients)] {
            assert!(!text.contains(secret.as_str()), "a secret is in the {place}");
        }
    }
    assert!(!home.data().join("master.key").exists(), "it is in the environment");
    // What is stored is sealed or hashed.
    let stored = home.stored();
    assert!(contains(&stored, b"invoice"), "what is stored can be read");
    for secret in &secrets {
        assert!(!contains(&stored, secret.as_bytes()));
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
