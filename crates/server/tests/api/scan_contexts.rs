//! What comes along with scans, and `GET /api/v1/codes/{type}/{code}/scans`.

use std::collections::BTreeMap;
use std::thread;

use jiff::Timestamp;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Home};

const CONFIG: &str = "
public: { types: [bottle], trusted_proxies: [127.0.0.0/8] }
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { tenant: OTHER, name: cap, random: { alphabet: crockford32, length: 16, ledger: derived } }
";

fn home() -> Home {
    Home::new().with_config(CONFIG)
}

/// Codes of a new batch.
fn made(client: &Client, id_type: &str, count: u64) -> Vec<String> {
    codes(client, &wait_for(client, &order(client, id_type, count), "completed"), "")
}

/// Scans a code with further fields, and says which scan it was.
fn scan(client: &Client, id_type: &str, code: &str, context: &Value) -> u64 {
    let mut body = context.clone();
    (body["type"], body["code"]) = (json!(id_type), json!(code));
    let reply = client.post("/api/v1/scans", &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["scans"].as_u64().unwrap()
}

fn list(client: &Client, id_type: &str, code: &str, query: &str) -> Value {
    let reply = client.get(&format!("/api/v1/codes/{id_type}/{code}/scans{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

/// The numbers and contexts of a page.
fn kept(page: &Value) -> Vec<(u64, Value)> {
    let scans = page["scans"].as_array().unwrap();
    scans.iter().map(|scan| (scan["number"].as_u64().unwrap(), scan["context"].clone())).collect()
}

/// How often a code was scanned.
fn scans(client: &Client, id_type: &str, code: &str) -> Value {
    client.get(&format!("/api/v1/codes/{id_type}/{code}")).body["scans"].clone()
}

#[test]
fn further_fields_are_kept_with_the_number_of_the_scan() {
    let home = home();
    let mut server = home.start();
    for id_type in ["bottle", "label"] {
        let client = server.client();
        let all = made(client, id_type, 2);
        let code = &all[0];
        assert_eq!(list(client, id_type, code, ""), json!({"scans": [], "next": null}));
        let place =
            |place: &str| json!({"place": place, "device": {"os": "x", "at": [1, 2.5, null]}});
        assert_eq!(scan(client, id_type, code, &place("Bonn")), 1);
        assert_eq!(scan(client, id_type, code, &json!({})), 2);
        assert_eq!(scan(client, id_type, code, &json!({"tenant": "default"})), 3);
        // As people type it.
        let typed = code.to_lowercase().replace('-', " ").replace('0', "o");
        assert_eq!(scan(client, id_type, &typed, &place("Rome")), 4);
        let void = format!("/api/v1/codes/{id_type}/{code}/void");
        assert_eq!(client.post(&void, &json!({"reason": "stolen"})).status, 200);
        assert_eq!(scan(client, id_type, code, &json!({"place": "Oslo"})), 5);
        assert_eq!(scan(client, id_type, &all[1], &place("elsewhere")), 1);

        let page = list(client, id_type, code, "");
        let expected = [(5, json!({"place": "Oslo"})), (4, place("Rome")), (1, place("Bonn"))];
        assert_eq!((kept(&page), &page["next"]), (expected.to_vec(), &Value::Null));
        let look = client.get(&format!("/api/v1/codes/{id_type}/{code}")).body;
        let first = &page["scans"][2];
        assert_eq!(first["scanned_at"], look["first_scanned_at"]);
        assert_eq!(first["key"], Value::Null, "the server runs open");
        server.kill();
        server = home.start();
        assert_eq!(list(server.client(), id_type, code, ""), page);
    }
}

#[test]
fn contexts_are_listed_in_pages() {
    let server = home().start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    for number in 1..=5 {
        assert_eq!(scan(client, "bottle", &code, &json!({"n": number})), number);
    }
    let numbers =
        |page: &Value| kept(page).into_iter().map(|(number, _)| number).collect::<Vec<_>>();
    let mut after = String::new();
    for (expected, last) in [(&[5, 4][..], false), (&[3, 2], false), (&[1], true)] {
        let page = list(client, "bottle", &code, &format!("?limit=2{after}"));
        assert_eq!((numbers(&page), page["next"].is_null()), (expected.to_vec(), last), "{page}");
        after = format!("&after={}", page["next"].as_str().unwrap_or_default());
    }
    let all = list(client, "bottle", &code, "?limit=5");
    assert_eq!((numbers(&all), &all["next"]), (vec![5, 4, 3, 2, 1], &Value::Null));
    let times: Vec<Timestamp> = all["scans"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|scan| scan["scanned_at"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    for wrong in ["after=x", "after=-1", "limit=0", "limit=1001"] {
        let path = format!("/api/v1/codes/bottle/{code}/scans?{wrong}");
        client.get(&path).problem(422, "invalid_request");
    }
}

#[test]
fn too_large_a_context_is_refused_and_not_counted() {
    let server = home().start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    let send = |bytes: usize, headers: &[(&str, &str)]| {
        let text = "x".repeat(bytes - r#"{"a":""}"#.len());
        let body = json!({"type": "bottle", "code": code, "a": text}).to_string();
        client.call(Method::POST, "/api/v1/scans", headers, Some(body.as_bytes()))
    };
    for bytes in [2049, 20_000, 500_000] {
        let reply = send(bytes, &[]);
        assert!(reply.problem(422, "context_too_large").contains("2048 bytes"), "{reply:?}");
        let reply = send(bytes, &[("idempotency-key", "scan-1")]);
        reply.problem(422, "context_too_large");
    }
    assert_eq!(scans(client, "bottle", &code), 0);
    // The key was not used up by what was refused.
    assert_eq!(send(2048, &[("idempotency-key", "scan-1")]).body["scans"], 1);
    let page = list(client, "bottle", &code, "");
    assert_eq!(page["scans"][0]["context"]["a"].as_str().unwrap().len(), 2040);
    let docs = client.get("/docs").text;
    assert!(docs.contains("problem-context_too_large"));
}

#[test]
fn whatever_json_can_say_is_kept_or_refused() {
    let server = home().start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    let send = |further: &str| {
        let body = format!(r#"{{"type": "bottle", {further}, "code": "{code}"}}"#);
        client.post_text("/api/v1/scans", &body)
    };
    let accepted = [
        (r#""n": 1, "n": 2"#, json!({"n": 2})),
        (r#""a": {"b": 1, "b": 2}"#, json!({"a": {"b": 2}})),
        (r#""a\u0000b": "\u0000""#, json!({"a\0b": "\0"})),
        (r#""": [], "null": null, "\"": "'; --""#, json!({"": [], "null": null, "\"": "'; --"})),
        (r#""\ud83e\uddc0": "𝄞\u0001\u007f""#, json!({"🧀": "𝄞\u{1}\u{7f}"})),
        (
            r#""n": 12345678901234567890, "f": -0.1e-7"#,
            json!({"n": 12_345_678_901_234_567_890_u64, "f": -0.1e-7}),
        ),
    ];
    for ((further, expected), number) in accepted.iter().zip(1_u64..) {
        let reply = send(further);
        assert_eq!((reply.status, &reply.body["scans"]), (200, &json!(number)), "{reply:?}");
        let page = list(client, "bottle", &code, "?limit=1");
        assert_eq!(kept(&page), [(number, expected.clone())]);
    }
    let deep = format!(r#""a": {}{}"#, "[".repeat(500), "]".repeat(500));
    for further in [&deep, r#""a": "\udc00""#, r#""a": 1e999"#] {
        send(further).problem(422, "invalid_request");
    }
    for further in [r#""a": nothing"#, "\"a\": \"\0\""] {
        send(further).problem(400, "malformed_json");
    }
    assert_eq!(scans(client, "bottle", &code), accepted.len());
}

#[test]
fn a_retried_scan_keeps_its_context_once() {
    let home = home();
    let mut server = home.start();
    let code = made(server.client(), "bottle", 1).remove(0);
    let send = |client: &Client, place: &str| {
        let body = json!({"type": "bottle", "code": code, "place": place}).to_string();
        let headers = [("idempotency-key", "scan-1")];
        client.call(Method::POST, "/api/v1/scans", &headers, Some(body.as_bytes()))
    };
    for _ in 0..3 {
        let reply = send(server.client(), "Bonn");
        assert_eq!((reply.status, &reply.body["scans"]), (200, &json!(1)), "{reply:?}");
        send(server.client(), "Rome").problem(422, "idempotency_key_reused");
        let page = list(server.client(), "bottle", &code, "");
        assert_eq!(kept(&page), [(1, json!({"place": "Bonn"}))]);
        server.kill();
        server = home.start();
    }
}

#[test]
fn what_is_no_code_keeps_nothing() {
    let server = home().start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    let issued = client.issue("bottle", 1).remove(0);
    for unknown in [&issued, "0000-0000-0000-0000", "no code"] {
        let body = json!({"type": "bottle", "code": unknown, "place": "Bonn"});
        assert_eq!(client.post("/api/v1/scans", &body).body["verdict"], "unknown");
        let path = format!("/api/v1/codes/bottle/{}/scans", unknown.replace(' ', "%20"));
        client.get(&path).problem(404, "unknown_code");
    }
    client.get(&format!("/api/v1/codes/nothing/{code}/scans")).problem(404, "unknown_type");
    assert_eq!(kept(&list(client, "bottle", &code, "")), []);
}

#[test]
fn contexts_are_for_keys_of_the_tenant_that_may_scan() {
    let home = home();
    let create = |args: &[&str]| home.create_key(args);
    let admin = create(&["--name", "chief", "--scope", "admin"]);
    let shop = create(&["--name", "shop", "--scope", "scan", "--tenant", "default"]);
    let line = create(&["--name", "line", "--scope", "batch", "--tenant", "default"]);
    let other = create(&["--name", "other", "--scope", "scan", "--tenant", "OTHER"]);
    let server = home.start();
    let [admin, shop_client, line, other] =
        [&admin, &shop, &line, &other].map(|token| server.client_with(token));
    let code = made(&line, "bottle", 1).remove(0);
    scan(&shop_client, "bottle", &code, &json!({"place": "Bonn"}));
    scan(&admin, "bottle", &code, &json!({"place": "Rome"}));
    let path = format!("/api/v1/codes/bottle/{code}/scans");
    server.client().get(&path).problem(401, "unauthorized");
    line.get(&path).problem(403, "missing_scope");
    other.get(&format!("{path}?tenant=default")).problem(403, "wrong_tenant");
    other.get(&path).problem(404, "unknown_type");
    let page = list(&shop_client, "bottle", &code, "");
    assert_eq!(list(&admin, "bottle", &code, "?tenant=default"), page);
    let short = shop.split('_').nth(1).unwrap();
    assert_eq!(page["scans"][1]["key"], short, "{page}");
    assert!(page["scans"][0]["key"].is_string() && page["scans"][0]["key"] != short, "{page}");
}

#[test]
fn consumers_leave_no_context() {
    let server = home().start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    let path = format!("/v/bottle/{code}");
    let page = client.call(Method::GET, &path, &[("accept", "text/html")], None);
    let (_, rest) = page.text.split_once("data-token=\"").expect("it has a token");
    let token = rest.split('"').next().unwrap();
    // The page sends a token and nothing else, and nobody gets anything else in.
    let more = client.post(&path, &json!({"token": token, "place": "Bonn"}));
    more.problem(422, "invalid_request");
    let verdict = client.post(&path, &json!({"token": token}));
    assert_eq!((verdict.status, scans(client, "bottle", &code)), (200, json!(1)), "{verdict:?}");
    assert_eq!(kept(&list(client, "bottle", &code, "")), []);
    assert_eq!(scan(client, "bottle", &code, &json!({"place": "Rome"})), 2);
    assert_eq!(kept(&list(client, "bottle", &code, "")), [(2, json!({"place": "Rome"}))]);
}

#[test]
fn of_many_scans_at_once_each_has_its_own_context() {
    const CLIENTS: u64 = 8;
    const SCANS: u64 = 20;
    let server = home().start();
    let client = server.client();
    let code = &made(client, "bottle", 1)[0];
    let told: BTreeMap<u64, Value> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = server.new_client();
                scope.spawn(move || {
                    let mut told = Vec::new();
                    for round in 0..SCANS {
                        let context = json!({"client": number, "round": round});
                        // Those without one are numbered as well.
                        if round % 3 == 0 {
                            scan(&client, "bottle", code, &json!({}));
                        }
                        told.push((scan(&client, "bottle", code, &context), context));
                    }
                    told
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(told.len() as u64, CLIENTS * SCANS);
    let listed: BTreeMap<u64, Value> =
        kept(&list(client, "bottle", code, "?limit=1000")).into_iter().collect();
    assert_eq!(listed, told);
}

#[test]
fn with_zero_days_nothing_is_kept() {
    let home = home().with("MINTAGE__CODES__CONTEXT_DAYS", "0");
    let server = home.start();
    let client = server.client();
    let code = made(client, "bottle", 1).remove(0);
    let contexts = [json!({"place": "Bonn"}), json!({"text": "x".repeat(10_000)})];
    for (context, number) in contexts.iter().zip(1..) {
        assert_eq!(scan(client, "bottle", &code, context), number);
    }
    let body = json!({"type": "bottle", "code": code, "place": "a town"}).to_string();
    let headers = [("idempotency-key", "scan-1")];
    let reply = client.call(Method::POST, "/api/v1/scans", &headers, Some(body.as_bytes()));
    assert_eq!(reply.body["scans"], 3, "{reply:?}");
    assert_eq!(kept(&list(client, "bottle", &code, "")), []);
}
