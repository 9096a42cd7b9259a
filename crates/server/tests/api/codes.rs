//! `/api/v1/scans` and `/api/v1/codes`: a code is verified, repeated, made void.

use std::thread;

use serde_json::{Value, json};

use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Home};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064, group: 4 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
";

fn home() -> Home {
    Home::new().with_config(CONFIG)
}

fn scan(client: &Client, id_type: &str, code: &str) -> Value {
    let reply = client.post("/api/v1/scans", &json!({"type": id_type, "code": code}));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body
}

#[test]
fn a_code_is_genuine_once_and_repeated_afterwards() {
    let server = home().start();
    let client = server.client();
    for id_type in ["bottle", "label"] {
        let batch = wait_for(client, &order(client, id_type, 10), "completed");
        let code = &codes(client, &batch, "")[3];
        let look = client.get(&format!("/api/v1/codes/{id_type}/{code}")).body;
        assert_eq!((&look["verdict"], &look["scans"]), (&json!("genuine"), &json!(0)), "{look}");
        let first = scan(client, id_type, code);
        assert_eq!((&first["verdict"], &first["scans"]), (&json!("genuine"), &json!(1)));
        assert_eq!(first["batch"], batch["id"]);
        // A look is no scan, so the code was scanned before.
        let look = client.get(&format!("/api/v1/codes/{id_type}/{code}")).body;
        assert_eq!((&look["verdict"], &look["scans"]), (&json!("repeated"), &json!(1)), "{look}");
        // As people type it.
        let typed = code.to_lowercase().replace('-', " ").replace('0', "o");
        let second = scan(client, id_type, &typed);
        assert_eq!((&second["verdict"], &second["scans"]), (&json!("repeated"), &json!(2)));
        assert_eq!(second["first_scanned_at"], first["first_scanned_at"]);
        let other = scan(client, id_type, &codes(client, &batch, "")[4]);
        assert_eq!(other["verdict"], "genuine");
    }
}

#[test]
fn unknown_codes_are_told_apart_for_those_with_a_key() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 1), "completed");
    let code = codes(client, &batch, "").remove(0);
    let mut broken = code.clone();
    let last = broken.pop().unwrap();
    broken.push(if last == 'A' { 'B' } else { 'A' });
    let verdict = scan(client, "bottle", &broken);
    assert_eq!((&verdict["verdict"], &verdict["rule"]), (&json!("unknown"), &json!("check")));
    assert_eq!(scan(client, "bottle", &code[1..])["rule"], "length");
    assert_eq!(scan(client, "bottle", "")["verdict"], "unknown");
    // An ID that was issued one by one is no code of a batch.
    let issued = client.issue("bottle", 1).remove(0);
    let verdict = scan(client, "bottle", &issued);
    assert_eq!((&verdict["verdict"], &verdict["rule"]), (&json!("unknown"), &Value::Null));
    client
        .post("/api/v1/scans", &json!({"type": "nothing", "code": code}))
        .problem(404, "unknown_type");
}

#[test]
fn many_scans_at_once_are_all_counted() {
    const CLIENTS: u64 = 8;
    const SCANS: u64 = 25;
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 10), "completed");
    let code = &codes(client, &batch, "")[0];
    let firsts: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let client = server.new_client();
                scope.spawn(move || {
                    let verdicts = (0..SCANS).map(|_| scan(&client, "bottle", code));
                    verdicts.filter(|verdict| verdict["verdict"] == "genuine").count()
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(firsts, 1);
    assert_eq!(scan(client, "bottle", code)["scans"], CLIENTS * SCANS + 1);
}

#[test]
fn a_retried_scan_with_a_key_counts_once() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 1), "completed");
    let code = codes(client, &batch, "").remove(0);
    let body = json!({"type": "bottle", "code": code}).to_string();
    for _ in 0..3 {
        let headers = [("idempotency-key", "scan-1")];
        let reply =
            client.call(ureq::http::Method::POST, "/api/v1/scans", &headers, Some(body.as_bytes()));
        assert_eq!(reply.body["verdict"], "genuine", "{reply:?}");
    }
    assert_eq!(scan(client, "bottle", &code)["scans"], 2);
}

#[test]
fn codes_and_batches_are_made_void() {
    let server = home().start();
    let client = server.client();
    for id_type in ["bottle", "label"] {
        let batch = wait_for(client, &order(client, id_type, 3), "completed");
        let all = codes(client, &batch, "");
        let path = format!("/api/v1/codes/{id_type}/{}/void", all[0]);
        let reply = client.post(&path, &json!({"reason": "stolen"}));
        assert_eq!((&reply.body["verdict"], reply.status), (&json!("void"), 200), "{reply:?}");
        client.post(&path, &json!({"reason": "lost"}));
        let verdict = scan(client, id_type, &all[0]);
        assert_eq!(
            (&verdict["verdict"], &verdict["void"]["reason"]),
            (&json!("void"), &json!("stolen"))
        );
        assert_eq!(scan(client, id_type, &all[1])["verdict"], "genuine");

        let recall = format!("/api/v1/batches/{}/recall", batch["id"].as_str().unwrap());
        client.post(&recall, &json!({"reason": " "})).problem(422, "invalid_request");
        let recalled = client.post(&recall, &json!({"reason": "contaminated"}));
        assert_eq!(recalled.body["recalled"]["reason"], "contaminated", "{recalled:?}");
        for (code, reason) in
            [(&all[0], "stolen"), (&all[1], "contaminated"), (&all[2], "contaminated")]
        {
            let verdict = scan(client, id_type, code);
            assert_eq!(
                (&verdict["verdict"], &verdict["void"]["reason"]),
                (&json!("void"), &json!(reason))
            );
        }
    }
    let never = "/api/v1/codes/bottle/0000-0000-0000-0000/void";
    client.post(never, &json!({"reason": "x"})).problem(404, "unknown_code");
}

#[test]
fn codes_are_shown_as_symbols() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 1), "completed");
    let code = codes(client, &batch, "").remove(0);
    for symbol in ["qr.svg", "datamatrix.svg"] {
        let path = format!("/api/v1/codes/bottle/{code}/{symbol}");
        let plain = client.get(&path);
        assert_eq!(plain.header("content-type"), Some("image/svg+xml"), "{plain:?}");
        assert!(plain.text.starts_with("<svg") && plain.text.contains("h1v1h-1z"));
        let url = "https%3A%2F%2Fid.example.com%2F01%2F09506000134352%2F21%2F%7Bcode%7D";
        let longer = client.get(&format!("{path}?url={url}"));
        assert!(longer.text.len() > plain.text.len(), "{longer:?}");
        let never = client.get(&format!("/api/v1/codes/bottle/0000-0000-0000-0000/{symbol}"));
        never.problem(404, "unknown_code");
    }
}

/// The modules of a picture, without the margin around them.
fn modules(svg: &str, margin: usize) -> (Vec<bool>, usize) {
    let size = svg.split("viewBox=\"0 0 ").nth(1).unwrap().split('"').next().unwrap();
    let (width, height) = size.split_once(' ').unwrap();
    let inner = |text: &str| text.parse::<usize>().unwrap() - 2 * margin;
    let (width, height) = (inner(width), inner(height));
    let mut dark = vec![false; width * height];
    let path = svg.split("<path d=\"").nth(1).unwrap().split('"').next().unwrap();
    for module in path.split_terminator("h1v1h-1z") {
        let (x, y) = module.strip_prefix('M').unwrap().split_once(',').unwrap();
        let place = |text: &str| text.parse::<usize>().unwrap() - margin;
        dark[place(y) * width + place(x)] = true;
    }
    (dark, width)
}

#[test]
fn a_data_matrix_says_what_it_should() {
    let server = home().start();
    let client = server.client();
    let batch = wait_for(client, &order(client, "bottle", 1), "completed");
    let code = codes(client, &batch, "").remove(0);
    let path = format!("/api/v1/codes/bottle/{code}/datamatrix.svg");
    let url = "?url=https%3A%2F%2Fid.example.com%2F01%2F09506000134352%2F21%2F%7Bcode%7D";
    let address = format!("https://id.example.com/01/09506000134352/21/{code}");
    for (query, expected) in [("", &code), (url, &address)] {
        let (dark, width) = modules(&client.get(&format!("{path}{query}")).text, 1);
        let read = datamatrix::DataMatrix::decode(&dark, width).unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), *expected);
    }
}
