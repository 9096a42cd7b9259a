//! What is said about codes that are not known, to those who may ask.

use serde_json::{Value, json};

use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { name: card, random: { alphabet: digits, length: 20, check: verhoeff } }
  - name: ticket
    random:
      alphabet: 23456789abcdefghjkmnpqrstuvwxyzABCDEFGHJKMNPQRSTUVWXYZ
      length: 10
      check: iso7064
  - { tenant: OTHER, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

/// What is said about a code that is scanned.
fn diagnosis(client: &Client, id_type: &str, code: &str) -> Value {
    let reply = client.post("/api/v1/scans", &json!({"type": id_type, "code": code}));
    assert_eq!((reply.status, &reply.body["verdict"]), (200, &json!("unknown")), "{reply:?}");
    let diagnosis = reply.body["diagnosis"].clone();
    assert!(diagnosis["detail"].as_str().is_some_and(|text| text.ends_with('.')), "{diagnosis}");
    diagnosis
}

/// Orders codes and returns them without hyphens.
fn make(client: &Client, id_type: &str, count: u64) -> Vec<String> {
    let batch = wait_for(client, &order(client, id_type, count), "completed");
    codes(client, &batch, "").into_iter().map(|code| code.replace('-', "")).collect()
}

/// Swaps the first two neighbours that differ, from a place on.
fn swapped(code: &str, from: usize) -> String {
    let mut typed: Vec<char> = code.chars().collect();
    let at = (from..typed.len()).find(|&at| typed[at - 1] != typed[at]).unwrap();
    typed.swap(at - 1, at);
    typed.into_iter().collect()
}

#[test]
fn mistakes_are_named_with_the_code_that_was_meant() {
    let server = Home::new().with_config(CONFIG).start();
    let client = server.client();
    let bottle = &make(client, "bottle", 1)[0];
    let grouped = |code: &str| {
        let groups: Vec<&str> = (0..4).map(|i| &code[4 * i..4 * i + 4]).collect();
        groups.join("-")
    };
    let says = |id_type: &str, typed: &str, kind: &str, meant: &str| {
        let diagnosis = diagnosis(client, id_type, typed);
        assert_eq!((&diagnosis["kind"], &diagnosis["did_you_mean"]), (&json!(kind), &json!(meant)));
        diagnosis["detail"].as_str().unwrap().to_owned()
    };
    says("bottle", &swapped(bottle, 8), "swapped", &grouped(bottle));
    let detail = says("bottle", &bottle[..15], "cut_off", &grouped(bottle));
    assert!(detail.contains("1 symbol missing"), "{detail}");
    let detail = says("bottle", &format!("{bottle}7"), "too_long", &grouped(bottle));
    assert!(detail.contains("1 symbol too many"), "{detail}");
    // W, X and % look like nothing else that is in the alphabet.
    let wrong = if bottle.ends_with('W') { "X" } else { "W" };
    says("bottle", &format!("{}{wrong}", &bottle[..15]), "mistyped", &grouped(bottle));

    let card = &make(client, "card", 1)[0];
    let digit = card.chars().find_map(|c| Some((c, ["O", "l", "Z", "S", "B"]["01258".find(c)?])));
    let mut typed = card.clone();
    if let Some((digit, like)) = digit {
        typed = typed.replace(digit, like);
        says("card", &typed, "look_alike", card);
    }

    let tickets = make(client, "ticket", 20);
    let ticket = tickets.iter().find(|code| code.to_lowercase() != **code).unwrap();
    says("ticket", &ticket.to_lowercase(), "case", ticket);

    // A look says the same as a scan.
    let typed = swapped(bottle, 8);
    let look = client.get(&format!("/api/v1/codes/bottle/{typed}")).body;
    assert_eq!(look["diagnosis"], diagnosis(client, "bottle", &typed), "{look}");

    // Nobody has scanned any of them yet.
    let look = client.get(&format!("/api/v1/codes/bottle/{bottle}")).body;
    assert_eq!((&look["scans"], &look["diagnosis"]), (&json!(0), &Value::Null), "{look}");
}

#[test]
fn another_type_is_named_within_the_tenant_only() {
    let server = Home::new().with_config(CONFIG).start();
    let client = server.client();
    for (made_as, scanned_as) in [("label", "bottle"), ("bottle", "label"), ("bottle", "card")] {
        let code = &make(client, made_as, 3)[2];
        let mut found = Value::Null;
        // A diagnosis may be a second behind with what was ordered.
        wait_until("the new batch is known", || {
            found = diagnosis(client, scanned_as, code);
            found["kind"] == "wrong_type"
        });
        assert_eq!((&found["type"], &found["did_you_mean"]), (&json!(made_as), &Value::Null));
    }
    let order = json!({"tenant": "OTHER", "type": "bottle", "count": 1});
    let batch = client.post("/api/v1/batches", &order).body;
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("it is made", || client.get(&path).body["state"] == "completed");
    let theirs = &codes(client, &batch, "")[0];
    let diagnosis = diagnosis(client, "label", theirs);
    assert!(["never_made", "unrecognised"].contains(&diagnosis["kind"].as_str().unwrap()));
}

/// A suggestion must not help anybody to make up codes.
#[test]
fn only_codes_that_were_made_are_ever_named() {
    let server = Home::new().with_config(CONFIG).start();
    let client = server.client();
    make(client, "bottle", 1);
    // Well formed, and issued, but not by a batch.
    let issued = client.issue("bottle", 1).remove(0).replace('-', "");
    let never_made = diagnosis(client, "bottle", &issued);
    assert_eq!(
        (&never_made["kind"], &never_made["did_you_mean"]),
        (&json!("never_made"), &Value::Null)
    );
    // One swap in 496 passes the check symbol.
    let swapped = diagnosis(client, "bottle", &swapped(&issued, 1));
    assert!(["unrecognised", "never_made"].contains(&swapped["kind"].as_str().unwrap()));
    assert_eq!(swapped["did_you_mean"], Value::Null);
    for (typed, kind) in [
        (issued[..15].to_owned(), "cut_off"),
        (issued[..9].to_owned(), "cut_off"),
        (format!("{issued}{issued}"), "too_long"),
        ("?".to_owned(), "cut_off"),
        ("????????????????".to_owned(), "unrecognised"),
        ("\u{1f37e}".repeat(500), "too_long"),
    ] {
        let reply = client.post("/api/v1/scans", &json!({"type": "bottle", "code": typed}));
        let found = &reply.body["diagnosis"];
        assert_eq!(
            (&found["kind"], &found["did_you_mean"]),
            (&json!(kind), &Value::Null),
            "{typed}"
        );
    }
}
