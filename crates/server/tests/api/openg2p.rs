//! The routes of OpenG2P's ID generator, byte by byte where clients may look at bytes.

use std::collections::HashSet;

use serde_json::json;
use ureq::http::Method;

use crate::support::{Client, Home, Reply};

const CONFIG: &str = r#"
id_generator:
  restricted_numbers: ["786"]
  pool_min_threshold: 50
  id_types:
    zebra_id: { id_length: 10 }
    farmer_id: { id_length: 6 }
    tiny: { id_length: 4 }
"#;

fn post(client: &Client, path: &str) -> Reply {
    client.call(Method::POST, &format!("/v1/idgenerator/{path}"), &[], Some(b""))
}

fn get(client: &Client, path: &str) -> Reply {
    client.get(&format!("/v1/idgenerator/{path}"))
}

/// Checks the envelope as text and returns what it carries: `"response":…,"errors":…`.
#[track_caller]
fn envelope(reply: &Reply, status: u16) -> &str {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    let rest = reply
        .text
        .strip_prefix(r#"{"id":"openg2p.idgenerator","version":"1.0","responsetime":""#)
        .unwrap_or_else(|| panic!("{reply:?}"));
    let (time, rest) = rest.split_once("\",").unwrap();
    let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z");
    rest.strip_suffix('}').unwrap()
}

#[test]
fn issuing_and_validating() {
    let home = Home::new().with_config(CONFIG);
    let server = home.start();
    let client = server.client();
    let mut ids = HashSet::new();
    for _ in 0..200 {
        let reply = post(client, "zebra_id/id");
        let id = reply.body["response"]["id"].as_str().unwrap_or_else(|| panic!("{reply:?}"));
        assert_eq!(envelope(&reply, 200), format!(r#""response":{{"id":"{id}"}},"errors":[]"#));
        assert!(id.len() == 10 && id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
        assert!(!id.starts_with(['0', '1']) && !id.contains("786"), "{id}");
        assert!(ids.insert(id.to_owned()), "{id} came twice");
        let reply = get(client, &format!("zebra_id/id/validate/{id}"));
        let expected = format!(r#""response":{{"id":"{id}","valid":true}},"errors":[]"#);
        assert_eq!(envelope(&reply, 200), expected);
    }
    let id = ids.iter().next().unwrap();
    let last = (id.as_bytes()[9] - b'0' + 1) % 10;
    for wrong in [format!("{}{last}", &id[..9]), id[..9].to_owned(), "0".to_owned(), "9".repeat(32)]
    {
        let reply = get(client, &format!("zebra_id/id/validate/{wrong}"));
        let expected = format!(r#""response":{{"id":"{wrong}","valid":false}},"errors":[]"#);
        assert_eq!(envelope(&reply, 200), expected);
    }
    // Bodies and queries are ignored.
    let reply =
        client.call(Method::POST, "/v1/idgenerator/farmer_id/id?x=1", &[], Some(b"{nonsense"));
    envelope(&reply, 200);

    let unknown = r#""response":null,"errors":[{"errorCode":"IDG-003","message":"Unknown ID type 'nothing'"}]"#;
    assert_eq!(envelope(&post(client, "nothing/id"), 404), unknown);
    assert_eq!(envelope(&get(client, "nothing/id/validate/123"), 404), unknown);
}

#[test]
fn an_exhausted_type_is_410() {
    let home = Home::new().with_config(CONFIG);
    let mut server = home.start();
    let mut ids = HashSet::new();
    let refusal = loop {
        let reply = post(server.client(), "tiny/id");
        if reply.status != 200 {
            break reply;
        }
        assert!(ids.insert(reply.body["response"]["id"].as_str().unwrap().to_owned()));
    };
    let exhausted = r#""response":null,"errors":[{"errorCode":"IDG-002","message":"ID space exhausted for ID type 'tiny'"}]"#;
    assert_eq!(envelope(&refusal, 410), exhausted);
    let valid = |number: &u32| {
        let reply = get(server.client(), &format!("tiny/id/validate/{number:04}"));
        reply.body["response"]["valid"] == true
    };
    assert_eq!((0..10_000).filter(valid).count(), ids.len(), "every valid one was handed out");
    server.stop();
    server = home.start();
    assert_eq!(envelope(&post(server.client(), "tiny/id"), 410), exhausted);
}

#[test]
fn malformed_parameters_are_422_before_anything_else() {
    let home = Home::new().with_config(CONFIG);
    let server = home.start();
    let client = server.client();
    let type_entry = |input: &str| {
        format!(
            r#"{{"type":"string_pattern_mismatch","loc":["path","id_type"],"msg":"String should match pattern '^[a-z][a-z0-9_]{{1,63}}$'","input":"{input}","ctx":{{"pattern":"^[a-z][a-z0-9_]{{1,63}}$"}}}}"#
        )
    };
    let id_entry = |input: &str| {
        format!(
            r#"{{"type":"string_pattern_mismatch","loc":["path","id_value"],"msg":"String should match pattern '^\\d{{1,32}}$'","input":"{input}","ctx":{{"pattern":"^\\d{{1,32}}$"}}}}"#
        )
    };
    let long = "a".repeat(65);
    for (path, input) in [
        ("UPPER", "UPPER"),
        ("a", "a"),
        ("1a", "1a"),
        ("a-b", "a-b"),
        ("ns%20x", "ns x"),
        ("%C3%A9t%C3%A9", "été"),
        ("ab%0A", "ab\\n"),
        ("a%ff", "a%ff"),
        (&long, &long),
    ] {
        let reply = post(client, &format!("{path}/id"));
        assert_eq!(reply.status, 422, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.text, format!(r#"{{"detail":[{}]}}"#, type_entry(input)));
    }
    let digits = "1".repeat(33);
    for (path, input) in
        [("12a", "12a"), ("-1", "-1"), ("%D9%A3", "٣"), ("1%20", "1 "), (&digits, &digits)]
    {
        let reply = get(client, &format!("farmer_id/id/validate/{path}"));
        assert_eq!(
            (reply.status, reply.text),
            (422, format!(r#"{{"detail":[{}]}}"#, id_entry(input)))
        );
    }
    let both = get(client, "UPPER/id/validate/x");
    assert_eq!(both.text, format!(r#"{{"detail":[{},{}]}}"#, type_entry("UPPER"), id_entry("x")));
    let longest = "a".repeat(64);
    assert_eq!(post(client, &format!("{longest}/id")).status, 404, "a name that nobody has");
}

#[test]
fn wrong_methods_and_paths_answer_as_the_original_does() {
    let home = Home::new().with_config(CONFIG);
    let server = home.start();
    let client = server.client();
    for (method, path, allowed) in [
        (Method::GET, "farmer_id/id", "POST"),
        (Method::GET, "UPPER/id", "POST"),
        (Method::HEAD, "farmer_id/id", "POST"),
        (Method::OPTIONS, "farmer_id/id", "POST"),
        (Method::DELETE, "farmer_id/id", "POST"),
        (Method::POST, "farmer_id/id/validate/1", "GET"),
        (Method::POST, "farmer_id/id/validate/id", "GET"),
        (Method::HEAD, "farmer_id/id/validate/1", "GET"),
        (Method::POST, "health", "GET"),
        (Method::HEAD, "health", "GET"),
        (Method::OPTIONS, "version", "GET"),
        (Method::HEAD, "version", "GET"),
        (Method::HEAD, "config", "GET"),
        (Method::PUT, "config", "GET"),
    ] {
        let body = matches!(method, Method::POST | Method::PUT).then_some(&b""[..]);
        let reply = client.call(method.clone(), &format!("/v1/idgenerator/{path}"), &[], body);
        assert_eq!(reply.status, 405, "{method} {path}: {reply:?}");
        assert_eq!(reply.header("allow"), Some(allowed), "{method} {path}");
        if method != Method::HEAD {
            assert_eq!(reply.text, r#"{"detail":"Method Not Allowed"}"#);
        }
    }
    for path in ["nothing", "farmer_id", "farmer_id/id/validate", "farmer_id/id/validate/", "x/y/z"]
    {
        let reply = get(client, path);
        assert_eq!(
            (reply.status, reply.text.as_str()),
            (404, r#"{"detail":"Not Found"}"#),
            "{path}"
        );
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    for (method, path) in [
        (Method::GET, "health"),
        (Method::GET, "version"),
        (Method::GET, "config"),
        (Method::POST, "farmer_id/id"),
        (Method::GET, "farmer_id/id/validate/123456"),
    ] {
        let body = (method == Method::POST).then_some(&b""[..]);
        let path = format!("/v1/idgenerator/{path}");
        let reply = client
            .try_call(method, &format!("{path}/"), &[], body)
            .unwrap_or_else(|error| panic!("{path}/: {error}"));
        assert_eq!(reply.status, 307, "{reply:?}");
        assert_eq!(reply.header("location"), Some(format!("{}{path}", server.url).as_str()));
        assert_eq!(reply.text, "");
    }
}

#[test]
fn health_version_and_configuration() {
    let home = Home::new().with_config(CONFIG).with("ID_GENERATOR__SEQUENCE_LIMIT", "4");
    let server = home.start().ready();
    let client = server.client();
    let health = get(client, "health");
    assert_eq!(envelope(&health, 200), r#""response":{"status":"UP"},"errors":[]"#);
    let version = get(client, "version");
    let text = envelope(&version, 200);
    assert!(text.starts_with(r#""response":{"service_version":""#), "{text}");
    assert!(text.contains(r#","build_time":""#) && text.contains(r#","git_commit":""#), "{text}");
    let number = version.body["response"]["service_version"].as_str().unwrap();
    assert_eq!(number.split('.').filter(|part| part.parse::<u32>().is_ok()).count(), 3, "{number}");
    assert_eq!(version.body["response"].as_object().unwrap().len(), 3);

    let expected = concat!(
        r#""response":{"id_types":{"zebra_id":{"id_length":10},"farmer_id":{"id_length":6},"tiny":{"id_length":4}},"#,
        r#""filter_rules":{"sequence_limit":4,"repeating_limit":2,"repeating_block_limit":2,"#,
        r#""conjugative_even_digits_limit":3,"digits_group_limit":5,"reverse_digits_group_limit":5,"#,
        r#""not_start_with":["0","1"],"restricted_numbers":["786"]}},"errors":[]"#
    );
    assert_eq!(envelope(&get(client, "config"), 200), expected);
    let openapi = client.get("/openapi.json").body;
    assert!(openapi["openapi"].as_str().unwrap().starts_with("3."));
}

/// The same types through both doors, never the same ID.
#[test]
fn both_apis_draw_from_one_counter() {
    let home = Home::new().with_config(CONFIG);
    let server = home.start();
    let client = server.client();
    let mut ids = HashSet::new();
    for _ in 0..50 {
        assert!(ids.insert(client.issue("farmer_id", 1).remove(0)));
        let reply = post(client, "farmer_id/id");
        assert!(ids.insert(reply.body["response"]["id"].as_str().unwrap().to_owned()));
    }
    let id = ids.iter().next().unwrap();
    let reply = client.post("/api/v1/ids/validate", &json!({"type": "farmer_id", "id": id}));
    assert_eq!(reply.body["valid"], true);
    let found = client.history("farmer_id", &format!("id={id}"));
    assert!(found["issuances"][0].is_object(), "{found}");
}
