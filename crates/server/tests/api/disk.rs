//! A disk that is full: no ID that is not remembered, and no restart once there is room.

use std::collections::HashSet;
use std::fs;

use serde_json::json;

use crate::support::disk::{IGNORE_THE_SIGNAL, limit_files};
use crate::support::{Client, Home, Reply};

fn home() -> Home {
    Home::embedded()
        .with_prelude(IGNORE_THE_SIGNAL)
        // Small pools, so that the next draw is never far.
        .with("MINTAGE__ISSUING__POOL_SIZE_MIN", "8")
        .with("MINTAGE__ISSUING__POOL_SIZE_MAX", "8")
        .with_config(
            r#"
id_types:
  - { name: order, sequence: { template: "ORD-{seq:08}" } }
  - { name: card, random: { alphabet: crockford32, length: 12 } }
  - { name: event, snowflake: {} }
"#,
        )
}

/// The size of the largest file, which is the least that the next write would need.
fn largest_file(home: &Home) -> u64 {
    let sizes =
        fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    sizes.max().unwrap()
}

fn order(client: &Client, id_type: &str, seen: &mut HashSet<String>) -> Reply {
    let reply = client.order(&json!({"type": id_type, "count": 5}).to_string());
    if reply.status == 200 {
        for id in reply.ids() {
            assert!(seen.insert(id.clone()), "{id} came again");
        }
    } else {
        reply.problem(503, "unavailable");
        assert!(reply.header("retry-after").is_some_and(|wait| wait.parse::<u32>().is_ok()));
    }
    reply
}

#[test]
fn a_full_disk_is_503_and_recovers_without_a_restart() {
    let home = home();
    let mut server = home.start();
    let mut seen = HashSet::new();
    for round in 0..3 {
        let client = server.client();
        for id_type in ["order", "card"] {
            assert_eq!(order(client, id_type, &mut seen).status, 200);
        }
        // Nothing can grow any more, and what is there can hardly be rewritten.
        limit_files(&server, "4096");
        for id_type in ["order", "card"] {
            let full = (0..1000).any(|_| order(client, id_type, &mut seen).status == 503);
            assert!(full, "{id_type} is still issued");
            for _ in 0..3 {
                let reply = order(client, id_type, &mut seen);
                assert_eq!(reply.status, 503, "{reply:?}");
            }
        }
        client.get("/readyz").problem(503, "unavailable");
        assert_eq!(client.get("/livez").status, 200);
        assert_eq!(client.get("/api/v1/types").status, 200, "what needs no disk still works");
        let health = client.get("/v1/idgenerator/health");
        assert_eq!(
            (health.status, &health.body["errors"][0]["errorCode"]),
            (503, &json!("IDG-006"))
        );
        let put = client.put("/api/v1/types/late", &json!({"sequence": {}}));
        put.problem(503, "unavailable");
        client.get("/api/v1/types/late").problem(404, "unknown_type");

        limit_files(&server, "unlimited");
        for id_type in ["order", "card", "event"] {
            for _ in 0..10 {
                let reply = order(client, id_type, &mut seen);
                assert_eq!(reply.status, 200, "there is room again: {reply:?}");
            }
        }
        assert_eq!(client.get("/readyz").status, 200);
        let log = server.log();
        assert!(log.contains("the disk") && !log.contains("panicked"), "{log}");
        if round == 1 {
            server.kill();
        } else {
            server.stop();
        }
        server = home.start();
    }
    // Every number below the next one is accounted for.
    let next = server.client().issue("order", 1).remove(0);
    let next: u64 = next["ORD-".len()..].parse().unwrap();
    for serial in 1..next {
        let found = server.client().history("order", &format!("serial={serial}"));
        let entries = |field: &str| found[field].as_array().unwrap().len();
        assert_eq!(entries("issuances") + entries("gaps"), 1, "{found}");
    }
}

/// The limit from the first moment, until the files have grown up to it.
#[test]
fn a_disk_that_fills_up_repeats_nothing() {
    let mut home = home();
    home.start().stop();
    let mut seen = HashSet::new();
    for _ in 0..2 {
        let blocks = largest_file(&home) / 512 + 200;
        home = home.with_prelude(&format!("{IGNORE_THE_SIGNAL}; ulimit -f {blocks}"));
        let server = home.start();
        let full = (0..20_000).any(|_| order(server.client(), "card", &mut seen).status == 503);
        assert!(full, "it never filled up");
        for _ in 0..20 {
            order(server.client(), "card", &mut seen);
        }
        server.kill();
    }
    // Without room for a single write there is no start either.
    home = home.with_prelude(&format!("{IGNORE_THE_SIGNAL}; ulimit -f 0"));
    let (code, message) = home.start_refused();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.lines().last().unwrap().starts_with("mintage: "), "{message}");
    home = home.with_prelude(IGNORE_THE_SIGNAL);
    let server = home.start();
    for _ in 0..100 {
        assert_eq!(order(server.client(), "card", &mut seen).status, 200);
    }
}
