//! `POST /api/v1/ids` and `POST /api/v1/ids/validate`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::Home;

/// The IDs of the sample types have the forms that the manual shows.
#[test]
fn every_sample_type_issues_one_and_ten_thousand() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    for id_type in ["invoice", "farmer", "bottle", "event"] {
        let reply = client.order(&format!(r#"{{"type":"{id_type}"}}"#));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.body.as_object().unwrap().len(), 1, "{reply:?}");
        let mut ids = reply.ids();
        assert_eq!(ids.len(), 1, "one where no count is given");
        ids.extend(client.issue(id_type, 10_000));
        ids.extend(client.issue(id_type, 1));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 10_002, "{id_type} repeats itself");
        for id in &ids {
            let fits = match id_type {
                "invoice" => id.strip_prefix("INV-").is_some_and(|rest| digits(&rest[5..])),
                "farmer" => id.len() == 12 && digits(id),
                "bottle" => id.split('-').all(|group| group.len() == 4) && id.len() == 19,
                _ => id.parse::<u64>().is_ok(),
            };
            assert!(fits, "{id_type} {id}");
        }
        for id in [&ids[0], &ids[5000], &ids[10_001]] {
            let reply = client.post("/api/v1/ids/validate", &json!({"type": id_type, "id": id}));
            assert_eq!((reply.status, reply.body), (200, json!({"id": id, "valid": true})));
        }
        match id_type {
            "invoice" | "event" => {
                assert!(ids.is_sorted_by_key(|id| number(id)), "{id_type} is out of order");
            }
            _ => assert!(!ids.is_sorted(), "{id_type} has an order that can be seen"),
        }
    }
}

/// The number at the end of an ID.
fn number(id: &str) -> u64 {
    id.rsplit('-').next().unwrap().parse().unwrap()
}

#[test]
fn a_sequence_counts_by_one_whoever_asks() {
    let home = Home::new().with_config(
        "id_types: [{ tenant: PROJ, name: '9012', sequence: { start: 1001, template: '{tenant}-{type}-{seq}' } }]",
    );
    let server = home.start();
    let first = server.client().order(r#"{"tenant":"PROJ","type":"9012"}"#);
    assert_eq!(first.ids(), ["PROJ-9012-1001"]);

    let answers: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=4)
            .map(|count| {
                let client = server.new_client();
                scope.spawn(move || {
                    let body = format!(r#"{{"tenant":"PROJ","type":"9012","count":{count}}}"#);
                    let numbers =
                        |_| client.order(&body).ids().iter().map(|id| number(id)).collect();
                    (0..50).map(numbers).collect::<Vec<Vec<u64>>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    for answer in &answers {
        assert!(answer.is_sorted_by(|a, b| a < b), "{answer:?}");
    }
    let mut all: Vec<u64> = answers.into_iter().flatten().collect();
    all.sort_unstable();
    assert_eq!(all, (1002..1002 + 500).collect::<Vec<_>>());
}

#[test]
fn wrong_orders_are_told_what_is_wrong() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let wrong = |body: &str, status: u16, code: &str, said: &str| {
        let reply = client.order(body);
        let detail = reply.problem(status, code);
        assert!(detail.contains(said), "{body}: {detail}");
    };
    for count in ["0", "10001", "18446744073709551615"] {
        let body = format!(r#"{{"type":"bottle","count":{count}}}"#);
        wrong(&body, 422, "invalid_request", "count must be from 1 to 10000");
    }
    for count in [
        "-1",
        "1.0",
        "1.5",
        "1e3",
        "\"5\"",
        "\"\"",
        "null",
        "true",
        "[1]",
        "{}",
        "18446744073709551616",
    ] {
        wrong(&format!(r#"{{"type":"bottle","count":{count}}}"#), 422, "invalid_request", "");
    }
    wrong(r#"{"type":"bottle","count":1,"cuont":2}"#, 422, "invalid_request", "cuont");
    wrong(r#"{"type":"bottle","type":"bottle"}"#, 422, "invalid_request", "duplicate");
    wrong(r#"{"count":1}"#, 422, "invalid_request", "type");
    wrong(r#"{"type":7}"#, 422, "invalid_request", "");
    wrong(r#"{"type":null}"#, 422, "invalid_request", "");
    wrong(r#"{"type":"bottle","tenant":["default"]}"#, 422, "invalid_request", "");
    for body in ["1", "null", "\"bottle\"", "[]", r#"["default","bottle",1]"#] {
        wrong(body, 422, "invalid_request", "");
    }
    wrong(r#"{"type":"nothing"}"#, 404, "unknown_type", "nothing");
    wrong(r#"{"type":"BOTTLE"}"#, 404, "unknown_type", "BOTTLE");
    wrong(r#"{"type":""}"#, 404, "unknown_type", "");
    wrong(r#"{"type":"bottle","tenant":"nobody"}"#, 404, "unknown_type", "nobody");
    wrong(r#"{"type":"bot\u0000tle\ud83d\ude00\r\n"}"#, 404, "unknown_type", "");
    wrong(r#"{"type":"../bottle' OR 1=1 --"}"#, 404, "unknown_type", "");
    assert_eq!(client.issue("invoice", 1)[0][9..], *"000001", "nothing of it took a number");
}

#[test]
fn what_is_not_json_is_400() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let deep = |open: &str, close: &str| {
        format!(r#"{{"type":"bottle","x":{}{}}}"#, open.repeat(100_000), close.repeat(100_000))
    };
    for body in [
        "",
        " ",
        "{",
        r#"{"type":"bottle""#,
        r#"{"type":"bottle"} x"#,
        r#"{"type":"bottle"}{"type":"bottle"}"#,
        "{'type':'bottle'}",
        r#"{"type":"bottle",}"#,
        r#"{"type":"bottle","count":01}"#,
        r#"{"type":"bottle","count":+1}"#,
        r#"{"type":"bottle","count":NaN}"#,
        r#"{"type":"bottle","count":٣}"#,
        r#"{"type":"\ud800"}"#,
        "{\"type\":\"bot\ntle\"}",
        "\u{feff}{\"type\":\"bottle\"}",
        "type=bottle&count=1",
        "<order/>",
    ] {
        client.order(body).problem(400, "malformed_json");
    }
    for body in [&b"{\"type\":\"bot\xfftle\"}"[..], b"\xff\xfe{\0", b"\0", b"{\"\xc3\x28\":1}"] {
        let reply = client.call(ureq::http::Method::POST, "/api/v1/ids", &[], Some(body));
        assert!(matches!(reply.status, 400 | 422), "{reply:?}");
        reply.problem(reply.status, reply.body["code"].as_str().unwrap());
    }
    // However deep or large it is: refused in time, without harm to the server.
    for body in [deep("[", "]"), deep("{\"x\":", "}"), "[".repeat(500_000), "9".repeat(500_000)] {
        let reply = client.order(&body);
        assert!(matches!(reply.status, 400 | 422), "{}", reply.status);
    }
    let nested = json!({"random": {}}).to_string().replace("{}", &"[".repeat(100_000));
    let path = "/api/v1/types/deep";
    let reply = client.call(ureq::http::Method::PUT, path, &[], Some(nested.as_bytes()));
    reply.problem(400, "malformed_json");
    let spaces = " ".repeat(100_000);
    assert_eq!(client.order(&format!(r#"{spaces}{{"type":"bottle"{spaces}}}"#)).status, 200);
    assert_eq!(client.order("{\"typ\\u0065\":\"b\\u006fttle\"}").status, 200);
}

#[test]
fn the_limit_on_counts_can_be_set() {
    let home = Home::new().with("MINTAGE__ISSUING__COUNT_MAX", "5");
    let server = home.start();
    assert_eq!(server.client().issue("bottle", 5).len(), 5);
    let reply = server.client().order(r#"{"type":"bottle","count":6}"#);
    assert!(reply.problem(422, "invalid_request").contains("from 1 to 5"));
}

#[test]
fn validation_names_the_rule_that_failed() {
    let home = Home::new().with_config(
        r#"
id_types:
  - { name: farmer, random: { alphabet: digits, length: 12, check: verhoeff, filters: openg2p } }
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: order, sequence: { start: 100, template: "ORD-{seq:06}" } }
  - { name: event, snowflake: {} }
"#,
    );
    let server = home.start();
    let client = server.client();
    let validate = |id_type: &str, id: &str| {
        let reply = client.post("/api/v1/ids/validate", &json!({"type": id_type, "id": id}));
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.body["id"], id, "as given");
        assert_eq!(reply.body["valid"].as_bool(), Some(reply.body["rule"].is_null()));
        assert_eq!(reply.body["detail"].is_null(), reply.body["rule"].is_null());
        reply.body["rule"].clone()
    };
    let bottle = client.issue("bottle", 1).remove(0);
    let last = if bottle.ends_with('0') { "1" } else { "0" };
    let wrong_check = format!("{}{last}", &bottle[..18]);
    let cases = [
        ("bottle", bottle.as_str(), Value::Null),
        ("bottle", &bottle.to_lowercase().replace('-', " "), Value::Null),
        ("bottle", &wrong_check, "check".into()),
        ("bottle", "ABC", "length".into()),
        ("bottle", "", "length".into()),
        ("bottle", "ABCD-EFGH-JKMN-PQR!", "symbol".into()),
        ("bottle", "ABCD-EFGH-JKMN-PQR\u{663}", "symbol".into()),
        // Not an issuable number, whatever its check digit: it starts with 1.
        ("farmer", "10293847565", "length".into()),
        ("farmer", "\u{661}02938475650", "symbol".into()),
        ("order", "ORD-000100", Value::Null),
        ("order", "ORD-000099", "out_of_range".into()),
        ("order", "INV-000100", "symbol".into()),
        ("event", "not a number", "symbol".into()),
    ];
    for (id_type, id, rule) in cases {
        assert_eq!(validate(id_type, id), rule, "{id_type} {id}");
    }
    let farmer = client.issue("farmer", 1).remove(0);
    assert_eq!(validate("farmer", &farmer), Value::Null);
    // One of ten last digits fits the check; the number still counts up.
    let rules: Vec<Value> =
        (0..10).map(|last| validate("farmer", &format!("23450000000{last}"))).collect();
    assert_eq!(rules.iter().filter(|rule| **rule == "filter").count(), 1, "{rules:?}");
    assert_eq!(rules.iter().filter(|rule| **rule == "check").count(), 9, "{rules:?}");

    let path = "/api/v1/ids/validate";
    client.post(path, &json!({"type": "nothing", "id": "1"})).problem(404, "unknown_type");
    client.post(path, &json!({"type": "bottle"})).problem(422, "invalid_request");
    client.post(path, &json!({"type": "bottle", "id": 5})).problem(422, "invalid_request");
    client.post_text(path, "{").problem(400, "malformed_json");
    let huge = "A".repeat(900_000);
    assert_eq!(validate("bottle", &huge), "length");
}
