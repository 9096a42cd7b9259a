//! `/api/v1/keys`: API keys over the API.

use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::{Home, Server};

/// Makes a key over the API and returns its token.
pub(super) fn create(server: &Server, admin: &str, order: &Value) -> String {
    let reply = server.client_with(admin).post("/api/v1/keys", order);
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.body["token"].as_str().unwrap().to_owned()
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let mut server = home.start();
    let order = json!({"name": "shop", "tenant": "default", "scopes": ["issue", "scan"],
        "requests_per_second": 5000, "expires_at": "2999-01-01T00:00:00Z"});
    let made = server.client_with(&admin).post("/api/v1/keys", &order);
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.body["token"].as_str().unwrap().to_owned();
    let short = made.body["key"].as_str().unwrap().to_owned();
    assert!(token.starts_with(&format!("mtg_{short}_")), "{token}");
    for field in ["name", "tenant", "scopes", "requests_per_second", "expires_at"] {
        assert_eq!(made.body[field], order[field], "{field}");
    }
    assert_eq!(server.client_with(&token).issue("bottle", 1).len(), 1);

    let list = server.client_with(&admin).get("/api/v1/keys");
    assert_eq!(list.body["keys"].as_array().unwrap().len(), 2);
    let secret = token.rsplit('_').next().unwrap();
    assert!(!list.text.contains(secret) && !list.text.contains("hash"), "{}", list.text);
    assert_eq!(
        (&list.body["keys"][1]["key"], &list.body["keys"][1]["revoked_at"]),
        (&json!(short), &Value::Null)
    );
    let page = server.client_with(&admin).get("/api/v1/keys?limit=1").body;
    let next = page["next"].as_str().unwrap();
    let page = server.client_with(&admin).get(&format!("/api/v1/keys?limit=1&after={next}")).body;
    assert_eq!((&page["keys"][0]["key"], &page["next"]), (&json!(short), &Value::Null));

    let path = format!("/api/v1/keys/{short}");
    let revoked = server.client_with(&admin).delete(&path);
    assert!(revoked.status == 200 && revoked.body["revoked_at"].is_string(), "{revoked:?}");
    let again = server.client_with(&admin).delete(&path);
    assert_eq!((again.status, &again.body["revoked_at"]), (200, &revoked.body["revoked_at"]));
    for _ in 0..2 {
        let reply = server.client_with(&token).order(r#"{"type":"bottle"}"#);
        assert!(reply.problem(401, "unauthorized").contains("revoked"));
        server.stop();
        server = home.start();
    }
    server.client_with(&admin).delete("/api/v1/keys/nothing0").problem(404, "not_found");
}

#[test]
fn wrong_orders_make_no_key() {
    let home = Home::new();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let server = home.start();
    let client = server.client_with(&admin);
    for order in [
        json!({}),
        json!({"name": "x"}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["everything"]}),
        json!({"name": "x", "scopes": "issue"}),
        json!({"name": "", "scopes": ["issue"]}),
        json!({"name": "a\nb", "scopes": ["issue"]}),
        json!({"name": "x".repeat(101), "scopes": ["issue"]}),
        json!({"name": "x", "scopes": ["issue"], "requests_per_second": 0}),
        json!({"name": "x", "scopes": ["issue"], "requests_per_second": -1}),
        json!({"name": "x", "scopes": ["issue"], "expires_at": "tomorrow"}),
        json!({"name": "x", "scopes": ["issue"], "tenant": "a b"}),
        json!({"name": "x", "scopes": ["issue"], "secret": "mine"}),
    ] {
        client.post("/api/v1/keys", &order).problem(422, "invalid_request");
    }
    client.post_text("/api/v1/keys", "{").problem(400, "malformed_json");
    // The secret is not kept, so it could not be given again.
    let (headers, order) = ([("idempotency-key", "k")], br#"{"name":"x","scopes":["issue"]}"#);
    let refused = client.call(Method::POST, "/api/v1/keys", &headers, Some(order));
    refused.problem(422, "idempotency_key_refused");
    assert_eq!(client.get("/api/v1/keys").body["keys"].as_array().unwrap().len(), 1);
}
