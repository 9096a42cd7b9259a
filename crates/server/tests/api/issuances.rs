//! `GET /api/v1/issuances`: who was given a number.

use serde_json::{Value, json};

use crate::support::{Home, wait_until};

#[test]
fn a_number_is_found_by_serial_and_by_id_with_the_name_of_the_key() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let shop = home.create_key(&["--name", "the shop", "--scope", "issue"]);
    let mut server = home.start();
    let ids: Vec<(&str, Vec<String>)> = ["invoice", "farmer", "bottle", "event"]
        .into_iter()
        .map(|id_type| (id_type, server.client_with(&shop).issue(id_type, 5)))
        .collect();
    let again = server.client_with(&admin).issue("invoice", 2);
    let short = shop.split('_').nth(1).unwrap();
    for restarted in [false, true] {
        if restarted {
            server.stop();
            server = home.start();
        }
        let client = server.client_with(&admin);
        for (id_type, ids) in &ids {
            for id in ids {
                let found = client.history(id_type, &format!("id={id}"));
                let issuance = &found["issuances"][0];
                assert_eq!(issuance["key"], short, "{found}");
                assert_eq!(issuance["key_name"], "the shop", "{found}");
                assert!(issuance["issued_at"].as_str().unwrap().ends_with('Z'), "{found}");
                assert_eq!((&found["gaps"], &found["next"]), (&json!([]), &Value::Null));
                assert!(found["issuances"][1].is_null(), "{found}");
                let by_serial = found["serial"].as_str().unwrap();
                assert_eq!(client.history(id_type, &format!("serial={by_serial}")), found);
                let number =
                    |field: &str| issuance[field].as_str().unwrap().parse::<u64>().unwrap();
                let serial = by_serial.parse().unwrap();
                assert!((number("first")..=number("last")).contains(&serial), "{found}");
            }
        }
        let found = client.history("invoice", "serial=2");
        assert_eq!(
            (&found["issuances"][0]["first"], &found["issuances"][0]["last"]),
            (&json!("1"), &json!("5"))
        );
        assert_eq!(found["issuances"][0]["period"], again[0][4..8], "{found}");
        let found = client.history("invoice", &format!("id={}", again[1]));
        assert_eq!(found["issuances"][0]["key_name"], "admin", "{found}");
        assert_eq!(found["issuances"][0]["first"], "6", "{found}");
        let unknown = client.history("invoice", "serial=900000");
        assert_eq!((&unknown["issuances"], &unknown["gaps"]), (&json!([]), &json!([])));
        let other_year = client.history("invoice", "serial=1&period=1999");
        assert_eq!(other_year["issuances"], json!([]));
    }
}

#[test]
fn an_open_server_knows_no_key() {
    let home = Home::new();
    let server = home.start();
    let id = server.client().issue("bottle", 1).remove(0);
    let found = server.client().history("bottle", &format!("id={id}"));
    assert_eq!(found["issuances"][0]["key"], Value::Null);
    assert_eq!(found["issuances"][0]["key_name"], Value::Null);
    let typed = id.to_lowercase().replace('-', "%20");
    assert_eq!(server.client().history("bottle", &format!("id={typed}")), found);
}

#[test]
fn wrong_questions_are_told_what_is_wrong() {
    let home = Home::new();
    let server = home.start();
    for (query, status, code) in [
        ("", 422, "invalid_request"),
        ("?type=bottle", 422, "invalid_request"),
        ("?type=bottle&serial=1&id=2", 422, "invalid_request"),
        ("?type=bottle&serial=x", 422, "invalid_request"),
        ("?type=bottle&serial=-1", 422, "invalid_request"),
        ("?type=bottle&serial=18446744073709551616", 422, "invalid_request"),
        ("?type=bottle&id=ABC", 422, "invalid_request"),
        ("?type=bottle&id=%ff", 422, "invalid_request"),
        ("?type=nothing&serial=1", 404, "unknown_type"),
        ("?type=bottle&tenant=nobody&serial=1", 404, "unknown_type"),
    ] {
        server.client().get(&format!("/api/v1/issuances{query}")).problem(status, code);
    }
    for serial in ["9223372036854775807", "18446744073709551615"] {
        let found = server.client().history("bottle", &format!("serial={serial}"));
        assert_eq!((&found["issuances"], &found["gaps"]), (&json!([]), &json!([])), "{serial}");
    }
}

/// What a killed server had in its pools and what it had not yet logged is a gap, not a mystery.
#[test]
fn what_a_crash_took_is_a_gap() {
    let home = Home::new().with("MINTAGE__ISSUING__LOG_FLUSH_MILLISECONDS", "3000");
    let mut server = home.start();
    let id = server.client().issue("invoice", 1).remove(0);
    server.kill();
    server = home.start();
    let mut found = Value::Null;
    // Among several instances it is one once the lease of the killed one has run out.
    wait_until("the gap is recorded", || {
        found = server.client().history("invoice", &format!("id={id}"));
        !found["gaps"][0].is_null()
    });
    let gap = &found["gaps"][0];
    assert_eq!((&found["issuances"], &gap["reason"]), (&json!([]), &json!("crash")), "{found}");
    let number = |field: &str| gap[field].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number("first"), 1, "{found}");
    assert_eq!(gap["count"].as_u64(), Some(number("last")), "{found}");
    assert!(gap["detected_at"].as_str().unwrap().ends_with('Z'), "{found}");
    let next = server.client().issue("invoice", 1).remove(0);
    for serial in number("last")..next[9..].parse().unwrap() {
        // The process may have drawn more than once.
        let found = server.client().history("invoice", &format!("serial={serial}"));
        assert_eq!(found["gaps"][0]["reason"], "crash", "{found}");
    }
    assert!(server.stop().contains("serials that were lost"));
}
