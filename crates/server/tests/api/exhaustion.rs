//! Small types hand out every valid ID exactly once, and then nothing, for ever.

use std::collections::HashSet;

use serde_json::json;

use crate::support::{Client, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: tiny, random: { alphabet: digits, length: 4, check: verhoeff } }
  - { name: picky, random: { alphabet: digits, length: 5, check: verhoeff, filters: openg2p } }
";

/// Takes IDs with changing counts until there are none, and returns them.
fn use_up(client: &Client, id_type: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for count in (1..).map(|round| 1 + round * 7 % 90) {
        let reply = client.order(&json!({"type": id_type, "count": count}).to_string());
        if reply.status == 200 {
            ids.extend(reply.ids());
            continue;
        }
        // All or nothing: what is left can still be had by asking for less.
        let detail = reply.problem(410, "exhausted");
        let left = detail.split(' ').find_map(|word| word.parse().ok()).expect(detail);
        assert!(left < count, "{detail}");
        if left > 0 {
            ids.extend(client.issue(id_type, left));
        }
        break;
    }
    client.order(&json!({"type": id_type}).to_string()).problem(410, "exhausted");
    ids
}

#[test]
fn every_valid_id_comes_exactly_once_also_after_a_restart() {
    let home = Home::new().with_config(CONFIG).with("MINTAGE__ISSUING__POOL_SIZE_MIN", "16");
    let mut server = home.start();
    let first = server.client().issue("tiny", 300);
    server.stop();
    server = home.start();
    let client = server.client();
    let ids: Vec<String> = first.into_iter().chain(use_up(client, "tiny")).collect();
    assert_eq!(ids.len(), 1000, "three digits and a check digit");
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1000);
    for id in ids.iter().take(50) {
        let reply = client.post("/api/v1/ids/validate", &json!({"type": "tiny", "id": id}));
        assert_eq!(reply.body["valid"], true);
    }

    let picky: HashSet<String> = use_up(client, "picky").into_iter().collect();
    let valid = |number: &u32| {
        let id = format!("{number:05}");
        let reply = client.post("/api/v1/ids/validate", &json!({"type": "picky", "id": id}));
        reply.body["valid"] == true
    };
    // Every seventh number is enough to see that none is left out.
    let every_seventh: HashSet<String> =
        (20_000..100_000).step_by(7).filter(valid).map(|number| format!("{number:05}")).collect();
    let issued: HashSet<String> =
        picky.iter().filter(|id| (id.parse::<u32>().unwrap() - 20_000) % 7 == 0).cloned().collect();
    assert_eq!(issued, every_seventh);

    let pools = client.get("/api/v1/pools").body;
    let tiny = pools["pools"].as_array().unwrap().iter().find(|pool| pool["type"] == "tiny");
    let tiny = tiny.unwrap();
    assert_eq!((&tiny["exhausted"], &tiny["valid_left"]), (&json!(true), &json!(0)), "{tiny}");
    assert_eq!((&tiny["level"], &tiny["used_ratio"]), (&json!(0), &json!(1.0)), "{tiny}");

    let log = server.stop();
    assert!(log.contains("has used 90 % of its space"), "{log}");
    assert!(log.contains("has used 99 % of its space"), "{log}");
    server = home.start();
    for id_type in ["tiny", "picky"] {
        server.client().order(&json!({"type": id_type}).to_string()).problem(410, "exhausted");
    }
    // The server itself is well.
    server = server.ready();
    server.kill();
    server = home.start();
    server.client().order(r#"{"type":"tiny"}"#).problem(410, "exhausted");
}

/// Fewer IDs than the smallest pool: no reason to wait, neither at the start nor for a request.
#[test]
fn a_type_with_less_than_a_pool_works_at_once() {
    let home = Home::new()
        .with_config(
            "id_types: [{ name: three, random: { alphabet: digits, length: 3, check: luhn } }]",
        )
        .with("MINTAGE__ISSUING__POOL_SIZE_MIN", "5000");
    let server = home.start();
    let ids = server.client().issue("three", 99);
    server.client().order(r#"{"type":"three","count":2}"#).problem(410, "exhausted");
    let last = server.client().issue("three", 1);
    assert_eq!(ids.iter().chain(&last).collect::<HashSet<_>>().len(), 100);
    server.client().order(r#"{"type":"three"}"#).problem(410, "exhausted");
}

#[test]
fn a_type_that_is_nearly_used_up_is_warned_about() {
    let config = "id_types: [{ name: pin, random: { alphabet: digits, length: 3 } }]";
    let server = Home::new().with_config(config).start();
    let warned = |percent: u32| {
        let line = format!("has used {percent} % of its space");
        server.log().lines().filter(|log| log.contains(&line)).count()
    };
    server.client().issue("pin", 850);
    assert_eq!((warned(90), warned(99)), (0, 0));
    server.client().issue("pin", 60);
    wait_until("90 % are warned about", || warned(90) == 1);
    server.client().issue("pin", 85);
    wait_until("99 % are warned about", || warned(99) == 1);
    let pools = server.client().get("/api/v1/pools").body;
    assert_eq!(pools["pools"][0]["valid_left"], 5, "{pools}");
    assert_eq!(warned(90), 1);
}
