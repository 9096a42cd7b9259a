//! `/api/v1/types`: ID types come, change and go.

use serde_json::{Value, json};

use crate::support::{Client, Home};

fn names(page: &Value) -> Vec<String> {
    let types = page["types"].as_array().unwrap().iter();
    types
        .map(|t| format!("{}/{}", t["tenant"].as_str().unwrap(), t["name"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_type_is_made_shown_changed_and_deleted() {
    let home = Home::new();
    let mut server = home.start();
    let path = "/api/v1/types/ticket";
    let spec = json!({"random": {"alphabet": "crockford32", "length": 10, "check": "iso7064"}});
    let made = server.client().put(path, &spec);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!((&made.body["tenant"], &made.body["name"]), (&json!("default"), &json!("ticket")));
    assert_eq!(
        (&made.body["state"], &made.body["random"]["length"]),
        (&json!("active"), &json!(10))
    );
    let created_at = made.body["created_at"].clone();
    let same = server.client().put(path, &spec);
    assert_eq!((same.status, &same.body), (200, &made.body));
    assert_eq!(server.client().get(path).body, made.body);

    // Nothing issued yet, so nothing is fixed.
    let longer = json!({"name": "ticket", "tenant": "default",
        "random": {"alphabet": "crockford32", "length": 12, "check": "iso7064"}});
    let changed = server.client().put(path, &longer);
    // The pool may have been filled ahead, which counts as use.
    assert!(matches!(changed.status, 200 | 409), "{changed:?}");
    let length = if changed.status == 200 { 12 } else { 10 };

    let id = server.client().issue("ticket", 1).remove(0);
    assert_eq!(id.len(), length);
    for (field, value) in
        [("length", json!(15)), ("alphabet", json!("alnum")), ("check", json!("none"))]
    {
        let mut spec = server.client().get(path).body["random"].clone();
        spec[field] = value;
        let reply = server.client().put(path, &json!({"random": spec}));
        assert!(reply.problem(409, "settings_are_fixed").contains(&format!("random.{field}")));
    }
    server.client().put(path, &json!({"sequence": {}})).problem(409, "settings_are_fixed");
    let mut grouped = server.client().get(path).body["random"].clone();
    grouped["group"] = json!(5);
    assert_eq!(server.client().put(path, &json!({"random": grouped})).status, 200);
    let grouped = server.client().issue("ticket", 1).remove(0);
    assert!(grouped.contains('-') && !id.contains('-'), "{id} {grouped}");
    assert_eq!(
        server.client().history("ticket", &format!("id={id}"))["issuances"]
            .as_array()
            .unwrap()
            .len(),
        1
    );

    let removed = server.client().delete(path);
    assert_eq!((removed.status, removed.body), (200, json!({"outcome": "retired"})));
    for _ in 0..2 {
        server.client().order(r#"{"type":"ticket"}"#).problem(410, "retired");
        let shown = server.client().get(path).body;
        assert_eq!((&shown["state"], &shown["created_at"]), (&json!("retired"), &created_at));
        let valid =
            server.client().post("/api/v1/ids/validate", &json!({"type": "ticket", "id": id}));
        assert_eq!(valid.body["valid"], true, "the IDs that are out there stay valid");
        assert_eq!(server.client().history("ticket", &format!("id={id}"))["gaps"], json!([]));
        server.stop();
        server = home.start();
    }
    // It comes back with its counter: no ID comes again.
    let spec = server.client().get(path).body["random"].clone();
    assert_eq!(server.client().put(path, &json!({"random": spec})).status, 200);
    let back = server.client().issue("ticket", 100);
    assert!(!back.contains(&id) && !back.contains(&grouped));
}

#[test]
fn a_sequence_that_was_used_keeps_its_start_and_template() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let path = "/api/v1/types/9012?tenant=PROJ";
    let spec =
        |start: u32, template: &str| json!({"sequence": {"start": start, "template": template}});
    assert_eq!(client.put(path, &spec(1001, "{tenant}-{type}-{seq}")).status, 201);
    let reply = client.order(r#"{"tenant":"PROJ","type":"9012"}"#);
    assert_eq!(reply.ids(), ["PROJ-9012-1001"]);
    let reply = client.put(path, &spec(1, "{tenant}-{type}-{seq}"));
    assert!(reply.problem(409, "settings_are_fixed").contains("sequence.start"));
    let reply = client.put(path, &spec(1001, "{seq}"));
    assert!(reply.problem(409, "settings_are_fixed").contains("sequence.template"));
    client.order(r#"{"type":"9012"}"#).problem(404, "unknown_type");
    assert_eq!(client.order(r#"{"tenant":"PROJ","type":"9012"}"#).ids(), ["PROJ-9012-1002"]);
}

#[test]
fn a_snowflake_type_is_retired_once_it_was_used() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    assert_eq!(client.put("/api/v1/types/unused", &json!({"snowflake": {}})).status, 201);
    assert_eq!(client.delete("/api/v1/types/unused").body["outcome"], "deleted");
    client.get("/api/v1/types/unused").problem(404, "unknown_type");
    client.delete("/api/v1/types/unused").problem(404, "not_found");
    client.issue("event", 1);
    let epoch = json!({"snowflake": {"epoch": "2020-01-01T00:00:00Z"}});
    let reply = client.put("/api/v1/types/event", &epoch);
    assert!(reply.problem(409, "settings_are_fixed").contains("snowflake.epoch"));
    assert_eq!(client.delete("/api/v1/types/event").body["outcome"], "retired");
    client.order(r#"{"type":"event"}"#).problem(410, "retired");
}

#[test]
fn wrong_specifications_name_every_field() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    let path = "/api/v1/types/wrong";
    let reply = client.put(
        path,
        &json!({"random": {"alphabet": "digits", "length": 99, "check": "crc", "colour": 1}}),
    );
    reply.problem(422, "invalid_request");
    let fields: Vec<&str> = reply.body["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| {
            assert!(!error["message"].as_str().unwrap().is_empty());
            error["field"].as_str().unwrap()
        })
        .collect();
    for field in ["random.length", "random.check", "random.colour"] {
        assert!(fields.contains(&field), "{fields:?}");
    }
    for body in [
        json!({}),
        json!([]),
        json!(null),
        json!({"random": {}, "sequence": {}}),
        json!({"name": "other", "snowflake": {}}),
        json!({"name": 5, "snowflake": {}}),
        json!({"tenant": 5, "snowflake": {}}),
        json!({"tenant": "no such/name", "snowflake": {}}),
        json!({"sequence": {"template": "no number"}}),
        json!({"sequence": {"template": "{seq}", "reset": "yearly"}}),
        json!({"sequence": {"start": -1}}),
        json!({"snowflake": {"epoch": "tomorrow"}}),
    ] {
        client.put(path, &body).problem(422, "invalid_request");
    }
    for name in ["-x", "a%20b", "a%2Fb", "%C3%A4", &"x".repeat(65)] {
        let path = format!("/api/v1/types/{name}");
        client.put(&path, &json!({"snowflake": {}})).problem(422, "invalid_request");
    }
    client.get(path).problem(404, "unknown_type");
    let gapless = json!({"sequence": {"template": "{seq}", "gapless": true}});
    assert_eq!(client.put("/api/v1/types/bill", &gapless).status, 201);
    client.order(r#"{"type":"bill"}"#).problem(422, "gapless");
}

fn all_pages(client: &Client, path: &str, limit: usize) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}limit={limit}{after}"));
        assert_eq!(page.status, 200, "{page:?}");
        let names = names(&page.body);
        assert!(names.len() <= limit);
        all.extend(names);
        match page.body["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

#[test]
fn lists_come_in_pages() {
    let home = Home::new();
    let server = home.start();
    let client = server.client();
    for number in 0..7 {
        for tenant in ["A", "a-b", "a.c"] {
            let path = format!("/api/v1/types/t{number}?tenant={tenant}");
            assert_eq!(client.put(&path, &json!({"snowflake": {}})).status, 201);
        }
    }
    let whole = client.get("/api/v1/types");
    assert_eq!(whole.body["next"], Value::Null);
    let names = names(&whole.body);
    assert_eq!(names.len(), 4 + 21);
    assert!(names.is_sorted(), "{names:?}");
    for limit in [1, 2, 5, 24, 25, 26, 1000] {
        assert_eq!(all_pages(client, "/api/v1/types?", limit), names, "{limit}");
    }
    let of_one = all_pages(client, "/api/v1/types?tenant=a-b&", 3);
    assert_eq!(of_one.len(), 7);
    assert!(of_one.iter().all(|name| name.starts_with("a-b/")));
    assert_eq!(client.get("/api/v1/types?tenant=nobody").body, json!({"types": [], "next": null}));
    assert_eq!(client.get("/api/v1/types?after=zzz").body["types"], json!([]));
    for limit in ["0", "1001", "-1", "x", ""] {
        let reply = client.get(&format!("/api/v1/types?limit={limit}"));
        reply.problem(422, "invalid_request");
    }
}
