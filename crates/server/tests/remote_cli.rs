//! The commands that talk to a running server, as a user runs them.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};
use support::{Home, Server};

/// A directory, a server on it with an administrator's key, and that key.
fn served() -> (Home, Server, String) {
    let home = Home::new();
    let token = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    (home, server, token)
}

/// A user somewhere else, who knows the address and a key, but no database.
fn user(server: &Server, token: &str) -> Home {
    Home::embedded().with("MINTAGE_SERVER", &server.url).with("MINTAGE_KEY", token)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn issue_prints_ids() {
    let (_home, server, token) = served();
    let user = user(&server, &token);
    let one = user.ok(&["issue", "invoice"]);
    assert!(one.starts_with("INV-") && one.ends_with("-000001\n"), "{one}");
    let more = user.ok(&["issue", "invoice", "--count", "3"]);
    let numbers: Vec<&str> = more.lines().map(|line| &line[9..]).collect();
    assert_eq!(numbers, ["000002", "000003", "000004"]);
    let answer = json(&user.ok(&["issue", "bottle", "--count", "2", "--json"]));
    assert_eq!(answer["ids"].as_array().unwrap().len(), 2);
    let many = user.ok(&["issue", "farmer", "--count", "10000"]);
    assert_eq!(many.lines().count(), 10_000);

    let message = user.fails(&["issue", "nothing"]);
    assert!(message.contains("the server refused (404): there is no ID type"), "{message}");
    let message = user.fails(&["issue", "bottle", "--count", "10001"]);
    assert!(message.contains("(422): count must be from 1 to 10000"), "{message}");
    let message = user.fails(&["issue", "bottle", "--tenant", "nobody"]);
    assert!(message.contains("nobody"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn types_and_tenants() {
    let (_home, server, token) = served();
    let user = user(&server, &token);
    let file = user.write("ticket.yaml", "sequence: { template: 'T-{seq:04}', start: 7 }\n");
    let file = file.to_str().unwrap();
    let put = ["types", "put", "ticket", "--tenant", "PROJ", "--file", file];
    let made = json(&user.ok(&put));
    assert_eq!((&made["tenant"], &made["state"]), (&json!("PROJ"), &json!("active")));
    assert_eq!(user.ok(&["issue", "ticket", "--tenant", "PROJ"]), "T-0007\n");
    let shown = json(&user.ok(&["types", "show", "ticket", "--tenant", "PROJ"]));
    assert_eq!(shown, made);
    let table = user.ok(&["types", "list"]);
    assert!(table.starts_with("tenant"), "{table}");
    for name in ["invoice", "farmer", "bottle", "event", "ticket"] {
        assert!(table.contains(name), "{table}");
    }
    let of_one = json(&user.ok(&["types", "list", "--tenant", "PROJ", "--json"]));
    assert_eq!(of_one, json!([made]));
    let changed = user.write("changed.yaml", "sequence: { template: 'X-{seq}' }\n");
    let message = user.fails(&[
        "types",
        "put",
        "ticket",
        "--tenant",
        "PROJ",
        "--file",
        changed.to_str().unwrap(),
    ]);
    assert!(message.contains("(409)") && message.contains("sequence.template"), "{message}");
    let removed = user.ok(&["types", "delete", "ticket", "--tenant", "PROJ"]);
    assert_eq!(json(&removed), json!({"outcome": "retired"}));
    let message = user.fails(&["types", "show", "nothing"]);
    assert!(message.contains("(404)"), "{message}");
    let message = user.fails(&["types", "put", "x", "--file", "missing.yaml"]);
    assert!(message.contains("cannot read missing.yaml"), "{message}");

    let tenant = json(&user.ok(&["tenants", "put", "ACME", "--requests-per-second", "50"]));
    assert_eq!((&tenant["name"], &tenant["requests_per_second"]), (&json!("ACME"), &json!(50)));
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&json(&user.ok(&["tenants", "list", "--json"]))), ["ACME", "PROJ", "default"]);
    assert!(user.ok(&["tenants", "list"]).contains("ACME"));
    assert_eq!(user.ok(&["tenants", "delete", "ACME"]), "");
    let message = user.fails(&["tenants", "delete", "PROJ"]);
    assert!(message.contains("(409)") && message.contains("still in use"), "{message}");
}

#[test]
fn keys_on_a_server_and_without_one() {
    let (home, server, token) = served();
    let user = user(&server, &token);
    let create = ["keys", "create", "--name", "shop", "--scope", "issue", "--scope", "scan"];
    let shop = user.ok(&create);
    let shop = shop.trim();
    let short = shop.split('_').nth(1).unwrap();
    let of_shop = self::user(&server, shop);
    assert_eq!(of_shop.ok(&["issue", "bottle"]).lines().count(), 1);
    let message = of_shop.fails(&["keys", "list"]);
    assert!(message.contains("(403)") && message.contains("admin"), "{message}");

    let made = json(&user.ok(&[&create[..], &["--json", "--tenant", "default"]].concat()));
    assert!(made["token"].as_str().unwrap().starts_with("mtg_"), "{made}");
    assert_eq!(made["scopes"], json!(["issue", "scan"]));
    let list = user.ok(&["keys", "list"]);
    assert!(list.contains("admin") && list.contains(short), "{list}");
    assert!(!list.contains(shop), "{list}");
    assert_eq!(json(&user.ok(&["keys", "list", "--json"])).as_array().unwrap().len(), 3);
    let revoked = json(&user.ok(&["keys", "revoke", short, "--json"]));
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    let message = of_shop.fails(&["issue", "bottle"]);
    assert!(message.contains("(401)") && message.contains("revoked"), "{message}");
    let message = user.fails(&["keys", "revoke", "nothing0"]);
    assert!(message.contains("(404)"), "{message}");

    // The same in the directory, while no server runs on it.
    server.stop();
    let list = json(&home.ok(&["keys", "list", "--json"]));
    assert_eq!(list.as_array().unwrap().len(), 3);
    assert_eq!((&list[1]["key"], &list[1]["revoked_at"]), (&json!(short), &revoked["revoked_at"]));
    let second = made["key"].as_str().unwrap();
    assert!(json(&home.ok(&["keys", "revoke", second, "--json"]))["revoked_at"].is_string());
    let message = home.fails(&["keys", "revoke", "nothing0"]);
    assert_eq!(message.lines().count(), 1, "{message}");
    let output = home.run(&["keys", "create", "--name", "x", "--scope", "everything"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn pools_are_a_table_or_json() {
    let (_home, server, token) = served();
    let user = user(&server, &token);
    user.ok(&["issue", "bottle"]);
    let table = user.ok(&["pools"]);
    assert!(table.starts_with("tenant") && table.contains("valid left"), "{table}");
    assert_eq!(table.lines().count(), 4, "{table}");
    let pools = json(&user.ok(&["pools", "--json"]));
    assert_eq!(pools[0]["type"], "bottle");
    assert_eq!(json(&user.ok(&["pools", "--json", "--tenant", "nobody"])), json!([]));
}

#[test]
fn batches_are_ordered_listed_and_downloaded() {
    let (_home, server, token) = served();
    let user = user(&server, &token);
    let order = ["batches", "order", "bottle", "--count", "1500", "--name", "spring", "--wait"];
    let batch = json(&user.ok(&order));
    assert_eq!((&batch["state"], &batch["made"]), (&"completed".into(), &1500.into()));
    let id = batch["id"].as_str().unwrap();
    let table = user.ok(&["batches", "list"]);
    assert!(table.lines().nth(1).is_some_and(|row| row.contains("spring")), "{table}");
    assert_eq!(json(&user.ok(&["batches", "show", id]))["id"], batch["id"]);
    let file = user.write("here", "").with_file_name("codes.txt");
    let out = file.to_str().unwrap();
    user.ok(&["batches", "codes", id, "--format", "txt", "--out", out]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1500);
    let message = user.fails(&["batches", "codes", id, "--out", out]);
    assert!(message.contains("codes.txt"), "{message}");
    let message = user.fails(&["batches", "cancel", id]);
    assert!(message.contains("(409)"), "{message}");
    let recalled = json(&user.ok(&["batches", "recall", id, "--reason", "contaminated"]));
    assert_eq!(recalled["recalled"]["reason"], "contaminated");
    assert!(user.fails(&["batches", "show", "1"]).contains("(404)"));
}

#[test]
fn what_goes_wrong_is_one_sentence() {
    let (_home, server, token) = served();
    for key in ["mtg_00000000_wrong", &format!("{token}x")] {
        let message = user(&server, key).fails(&["issue", "bottle"]);
        assert_eq!(message, "mintage: the server refused (401): the API key is not valid.\n");
    }
    let keyless = Home::embedded();
    let message = keyless.fails(&["issue", "bottle", "--server", &server.url]);
    assert!(message.contains("(401): Send an API key"), "{message}");
    let with_flags = ["issue", "bottle", "--server", &format!("{}/", server.url), "--key", &token];
    assert_eq!(keyless.ok(&with_flags).lines().count(), 1);

    let url = server.url.clone();
    server.stop();
    for command in [
        &["issue", "bottle"][..],
        &["types", "list"],
        &["tenants", "list"],
        &["keys", "list"],
        &["pools"],
    ] {
        let message = keyless.fails(&[command, &["--server", &url]].concat());
        assert!(
            message.starts_with(&format!("mintage: cannot reach the server at {url}")),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    for server in ["ftp://x", "localhost:8080", "https://x"] {
        let output = keyless.run(&["issue", "bottle", "--server", server]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains("http://127.0.0.1:8080"), "{message}");
    }
    let help = keyless.ok(&["issue", "--help"]);
    assert!(help.contains("MINTAGE_KEY") && !help.contains(&token));
}

/// Lets one connection through to a server and cuts it after so many bytes of the answer.
fn cutting_proxy(server: &Server, bytes: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut upstream = server.connect();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let count = client.read(&mut request).unwrap();
        upstream.write_all(&request[..count]).unwrap();
        std::io::copy(&mut upstream.take(bytes), &mut client).unwrap();
    });
    url
}

#[test]
fn a_download_that_broke_off_goes_on() {
    let (_home, server, token) = served();
    let user = user(&server, &token);
    let order = ["batches", "order", "bottle", "--count", "20000", "--wait"];
    let batch = json(&user.ok(&order));
    let id = batch["id"].as_str().unwrap();
    let whole = user.write("whole.csv", "").with_file_name("whole-codes.csv");
    user.ok(&["batches", "codes", id, "--out", whole.to_str().unwrap()]);
    let whole = std::fs::read(whole).unwrap();

    let out = user.write("here", "").with_file_name("codes.csv");
    let download = ["batches", "codes", id, "--out", out.to_str().unwrap()];
    let proxy = cutting_proxy(&server, 100_000);
    let message = user.fails(&[&download[..], &["--server", &proxy]].concat());
    assert!(message.contains("broke off") && message.contains("goes on"), "{message}");
    assert!(!out.exists());
    let partial = || {
        let files = std::fs::read_dir(out.parent().unwrap()).unwrap();
        let mut paths = files.map(|file| file.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "partial"))
    };
    let part = partial().expect("what arrived is kept");
    let there = std::fs::read(&part).unwrap();
    assert!(!there.is_empty() && there.len() < 100_000 && whole.starts_with(&there));

    // What is there is not downloaded again, so a mark in it stays.
    std::fs::write(&part, [b"#", &there[1..]].concat()).unwrap();
    let answer = json(&user.ok(&download));
    assert_eq!(answer["bytes"], whole.len());
    let file = std::fs::read(&out).unwrap();
    assert!(file[0] == b'#' && file[1..] == whole[1..]);
    assert_eq!(partial(), None);
    assert!(user.fails(&download).contains("codes.csv exists already"));

    // A part of another file stays where it is.
    std::fs::remove_file(&out).unwrap();
    let other = out.with_file_name(".codes.csv.0123456789abcdef.partial");
    std::fs::write(&other, "x").unwrap();
    user.ok(&download);
    assert!(std::fs::read(&out).unwrap() == whole && other.exists());
    let xlsx = out.with_file_name("codes.xlsx");
    user.ok(&["batches", "codes", id, "--format", "xlsx", "--out", xlsx.to_str().unwrap()]);
    assert!(std::fs::read(&xlsx).unwrap().starts_with(b"PK\x03\x04"));
}

#[test]
fn documents_sinks_reservations_and_gaps() {
    let home = support::sinks::home();
    let token = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let user = user(&server, &token);
    let sink = json(&user.ok(&["sinks", "put", "archive", "--directory", "archive"]));
    assert_eq!(sink["directory"], "archive");
    assert!(user.ok(&["sinks", "list"]).contains("archive"));
    let file = user.write("order.json", "{\"n\": 1}");
    let assign = ["documents", "assign", "order", "--reference", "a"];
    let assign = [&assign[..], &["--file", file.to_str().unwrap()]].concat();
    assert_eq!(user.ok(&assign), "ORD-1\n");
    assert_eq!(user.ok(&assign), "ORD-1\n", "the same name gives the same ID");
    support::wait_until("it has arrived", || {
        json(&user.ok(&["documents", "show", "ORD-1"]))["state"] == "COMMITTED"
    });
    assert!(user.ok(&["documents", "list", "order", "--state", "COMMITTED"]).contains("ORD-1"));
    assert_eq!(json(&user.ok(&["documents", "dead", "--json"])), json!([]));
    let retry = ["documents", "retry", "--all", "order", "--reason", "none"];
    assert_eq!(json(&user.ok(&retry)), json!({"settled": 0}));

    let held = json(&user.ok(&["reservations", "create", "order", "--seconds", "60"]));
    assert_eq!(held["id"], "ORD-2");
    let number = held["reservation"].as_str().unwrap();
    assert_eq!(json(&user.ok(&["reservations", "show", number])), held);
    let confirm = ["reservations", "confirm", number, "--file", file.to_str().unwrap()];
    assert_eq!(json(&user.ok(&confirm)), json!({"id": "ORD-2"}));
    let held = json(&user.ok(&["reservations", "create", "order"]));
    let number = held["reservation"].as_str().unwrap();
    assert_eq!(json(&user.ok(&["reservations", "release", number]))["state"], "released");
    assert!(
        user.fails(&["reservations", "confirm", "1", "--file", file.to_str().unwrap()])
            .contains("404")
    );

    let gaps = json(&user.ok(&["gaps", "list", "order", "--json"]));
    assert_eq!(gaps[0]["first_id"], "ORD-3");
    let gap = gaps[0]["id"].as_str().unwrap();
    let signed = json(&user.ok(&["gaps", "sign-off", "order", gap, "--note", "fine"]));
    assert_eq!(signed["signed_off"]["note"], "fine");
    let csv = user.ok(&["gaps", "list", "order", "--csv"]);
    assert!(csv.lines().count() == 2 && csv.contains("\"fine\""), "{csv}");
    let story = json(&user.ok(&["gaps", "history", "order", "ORD-3"]));
    assert_eq!(story["state"], "GAP");
    user.ok(&["sinks", "delete", "archive"]);
    assert!(user.fails(&["sinks", "delete", "archive"]).contains("404"));
}
