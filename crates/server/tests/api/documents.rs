//! `/api/v1/documents`: an ID and its payload in one step.

use std::collections::BTreeSet;
use std::thread;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::sinks::{
    assign, directory, document, home, root, wait_for_files, wait_for_state,
};
use crate::support::{Client, Reply};

fn post(client: &Client, body: &Value) -> Reply {
    client.post("/api/v1/documents", body)
}

fn post_with_key(client: &Client, key: &str, body: &Value) -> Reply {
    let (headers, body) = ([("idempotency-key", key)], body.to_string());
    client.call(Method::POST, "/api/v1/documents", &headers, Some(body.as_bytes()))
}

#[test]
fn a_document_gets_an_id_and_arrives() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let payload = json!({"amount": "12.30", "lines": [1, 2]});
    let id = assign(client, "order", &payload);
    assert_eq!(id, "ORD-1");
    let directory = root(&home).join("default/archive/order");
    assert_eq!(wait_for_files(&directory, 1)["ORD-1"], payload);
    let found = wait_for_state(client, &id, "COMMITTED");
    assert_eq!((&found["id"], &found["payload"]), (&json!("ORD-1"), &payload));
    assert_eq!((&found["project"], &found["type"]), (&json!("default"), &json!("order")));
    assert_eq!((&found["serial"], &found["attempts"]), (&json!("1"), &json!(1)));
    assert!(found["settled_at"].is_string() && found["next_attempt_at"].is_null(), "{found}");
    assert!(found["last_error"].is_null() && found["client_reference"].is_null(), "{found}");
    assert_eq!(document(client, "ORD1")["id"], "ORD-1", "separators are for people");
    client.get("/api/v1/documents/ORD-2").problem(404, "not_found");
    client.get("/api/v1/documents/nothing").problem(404, "not_found");
}

#[test]
fn many_documents_get_ids_in_order() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({"tenant": "PROJ"}));
    let documents: Vec<_> = (0..10_000).map(|n| json!({"payload": {"n": n}})).collect();
    let body = json!({"project": "PROJ", "type": "9012", "documents": documents});
    let reply = post(client, &body);
    assert_eq!(reply.status, 202, "{reply:?}");
    let expected: Vec<_> = (1001..11_001).map(|serial| format!("PROJ-9012-{serial}")).collect();
    assert_eq!(reply.ids(), expected);
    let files = wait_for_files(&root(&home).join("PROJ/archive/9012"), 10_000);
    for (n, id) in expected.iter().enumerate() {
        assert_eq!(files[id], json!({"n": n}));
    }
    // One that is asked for as one of several is answered as such.
    let one = json!({"project": "PROJ", "type": "9012", "documents": [{"payload": 1}]});
    assert_eq!(post(client, &one).body, json!({"ids": ["PROJ-9012-11001"]}));
}

#[test]
fn ids_of_random_types_are_numbers_of_documents_too() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let documents: Vec<_> = (0..50).map(|n| json!({"payload": n})).collect();
    let ids = post(client, &json!({"type": "farmer", "documents": documents})).ids();
    let files = wait_for_files(&root(&home).join("default/archive/farmer"), 50);
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(files[id], n);
        let valid = client.post("/api/v1/ids/validate", &json!({"type": "farmer", "id": id}));
        assert_eq!(valid.body["valid"], true, "{valid:?}");
    }
    assert_eq!(wait_for_state(client, &ids[7], "COMMITTED")["payload"], 7);
    // Nobody is ever given the same one.
    let issued: BTreeSet<_> = client.issue("farmer", 100).into_iter().collect();
    assert!(ids.iter().all(|id| !issued.contains(id)));
}

#[test]
fn an_idempotency_key_gives_the_same_id() {
    let server = home().start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    for body in [
        json!({"type": "order", "payload": {"n": 1}}),
        json!({"type": "order", "documents": [{"payload": 1}, {"payload": 1}]}),
        json!({"type": "invoice", "payload": {"n": 1}}),
    ] {
        let key = body.to_string();
        let first = post_with_key(client, &key, &body);
        assert_eq!(first.status, 202, "{first:?}");
        let again = post_with_key(client, &key, &body);
        assert_eq!((again.status, &again.body), (202, &first.body));
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        let other = json!({"type": "order", "payload": 2});
        post_with_key(client, &key, &other).problem(422, "idempotency_key_reused");
    }
    assert_eq!(assign(client, "order", &json!(0)), "ORD-4", "nothing was assigned twice");
}

#[test]
fn a_client_reference_is_unique_for_a_type() {
    let server = home().start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    for (type_name, next) in [("order", "ORD-3"), ("invoice", "INV-000003")] {
        let order = |reference: &str, payload: u32| {
            let body =
                json!({"type": type_name, "payload": payload, "client_reference": reference});
            post(client, &body)
        };
        let first = order("a", 1);
        assert_eq!(first.status, 202, "{first:?}");
        assert_eq!(order("a", 1).body, first.body);
        let detail = order("a", 2).problem(409, "reference_taken").to_owned();
        assert!(detail.contains(first.body["id"].as_str().unwrap()), "{detail}");
        // All of a call, or nothing.
        let several = json!({"type": type_name, "documents": [
            {"payload": 5, "client_reference": "b"},
            {"payload": 2, "client_reference": "a"},
        ]});
        post(client, &several).problem(409, "reference_taken");
        let repeated = json!({"type": type_name, "documents": [
            {"payload": 5, "client_reference": "b"},
            {"payload": 1, "client_reference": "a"},
            {"payload": 5, "client_reference": "b"},
        ]});
        let ids = post(client, &repeated).ids();
        assert_eq!((&ids[0], ids[1].as_str()), (&ids[2], first.body["id"].as_str().unwrap()));
        assert_eq!(assign(client, type_name, &json!(0)), next);
        assert_eq!(document(client, &ids[0])["client_reference"], "b");
    }
}

#[test]
fn what_cannot_be_taken_is_refused() {
    let home = home()
        .with("MINTAGE__DOCUMENTS__PAYLOAD_BYTES_MAX", "100")
        .with("MINTAGE__DOCUMENTS__BODY_BYTES_MAX", "2000000")
        .with("MINTAGE__DOCUMENTS__COUNT_MAX", "3");
    let server = home.start();
    let client = server.client();
    let one = |type_name: &str| post(client, &json!({"type": type_name, "payload": 1}));
    one("order").problem(409, "no_sink");
    directory(client, "archive", &json!({}));
    one("nothing").problem(404, "unknown_type");
    one("event").problem(422, "invalid_request");
    client.post_text("/api/v1/documents", "{\"type\": ").problem(400, "malformed_json");
    client
        .post_text("/api/v1/documents", "{\"type\":\"order\",\"payload\":{1}}")
        .problem(400, "malformed_json");
    let large = json!({"type": "order", "payload": "x".repeat(99)});
    post(client, &large).problem(413, "payload_too_large");
    let too_large = json!({"type": "order", "payload": "x".repeat(2_000_000)});
    post(client, &too_large).problem(413, "body_too_large");
    for body in [
        json!({"type": "order"}),
        json!({"type": "order", "documents": []}),
        json!({"type": "order", "documents": [1]}),
        json!({"type": "order", "payload": null}),
        json!({"type": "order", "documents": [{"payload": null}]}),
        json!({"type": "order", "documents": vec![json!({"payload": 1}); 4]}),
        json!({"type": "order", "payload": 1, "documents": [{"payload": 1}]}),
        json!({"type": "order", "client_reference": "a", "documents": [{"payload": 1}]}),
        json!({"type": "order", "payload": 1, "client_reference": ""}),
        json!({"type": "order", "payload": 1, "colour": "red"}),
        json!({"payload": 1}),
    ] {
        post(client, &body).problem(422, "invalid_request");
    }
    assert_eq!(assign(client, "order", &json!("x".repeat(98))), "ORD-1", "nothing was spent");
}

#[test]
fn gapless_types_have_no_gaps() {
    let home = home();
    let server = home.start();
    directory(server.client(), "archive", &json!({}));
    thread::scope(|scope| {
        for thread in 0..8 {
            let client = server.new_client();
            scope.spawn(move || {
                for n in 0..20 {
                    if n % 5 == 0 {
                        let body =
                            json!({"type": "invoice", "payload": 1, "client_reference": "x"});
                        let again = json!({"payload": thread, "client_reference": "x"});
                        let several =
                            json!({"type": "invoice", "documents": [{"payload": 1}, again]});
                        post(&client, &body);
                        post(&client, &several);
                    }
                    assign(&client, "invoice", &json!({"thread": thread, "n": n}));
                }
            });
        }
    });
    let files = root(&home).join("default/archive/invoice");
    let last = assign(server.client(), "invoice", &json!("last"));
    let count: usize = last.strip_prefix("INV-").unwrap().parse().unwrap();
    assert!(count > 161, "{count}");
    let found: Vec<_> = wait_for_files(&files, count).into_keys().collect();
    let expected: Vec<_> = (1..=count).map(|serial| format!("INV-{serial:06}")).collect();
    assert_eq!(found, expected);
    server.client().order(r#"{"type":"invoice"}"#).problem(422, "gapless");
}

#[test]
fn documents_are_listed_by_state() {
    let server = home().start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let ids: Vec<_> = (0..5).map(|n| assign(client, "order", &json!(n))).collect();
    for id in &ids {
        wait_for_state(client, id, "COMMITTED");
    }
    let list = |query: &str| {
        let reply = client.get(&format!("/api/v1/documents?type=order{query}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    };
    let names = |page: &Value| -> Vec<String> {
        let documents = page["documents"].as_array().unwrap().iter();
        documents.map(|document| document["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = list("&limit=3&state=COMMITTED");
    assert_eq!(names(&first), ["ORD-5", "ORD-4", "ORD-3"]);
    assert!(first["documents"][0]["payload"].is_null());
    let rest = list(&format!("&limit=3&after={}", first["next"].as_str().unwrap()));
    assert_eq!(
        (names(&rest), &rest["next"]),
        (vec!["ORD-2".to_owned(), "ORD-1".to_owned()], &Value::Null)
    );
    assert!(names(&list("&state=PENDING")).is_empty());
    assert!(names(&list("&state=DEAD_LETTER")).is_empty());
    client.get("/api/v1/documents?type=order&state=lost").problem(422, "invalid_request");
    client.get("/api/v1/documents?type=none").problem(404, "unknown_type");
}

#[test]
fn tenants_see_their_own_documents_only() {
    let home = home();
    let (own, other) = (
        home.create_key(&["--name", "own", "--scope", "issue", "--tenant", "PROJ"]),
        home.create_key(&["--name", "other", "--scope", "issue", "--tenant", "OTHER"]),
    );
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    directory(&server.client_with(&admin), "archive", &json!({"tenant": "PROJ"}));
    let (own, other) = (server.client_with(&own), server.client_with(&other));
    let body = json!({"type": "9012", "payload": 1});
    assert_eq!(post(&own, &body).body, json!({"id": "PROJ-9012-1001"}));
    assert_eq!(own.get("/api/v1/documents/PROJ-9012-1001").status, 200);
    other.get("/api/v1/documents/PROJ-9012-1001").problem(404, "not_found");
    post(&other, &body).problem(404, "unknown_type");
    let foreign = json!({"project": "PROJ", "type": "9012", "payload": 1});
    post(&other, &foreign).problem(403, "wrong_tenant");
    own.get("/api/v1/sinks").problem(403, "missing_scope");
}
