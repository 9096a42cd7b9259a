//! `/api/v1/tenants`.

use serde_json::{Value, json};

use crate::support::Home;

#[test]
fn tenants_are_made_listed_changed_and_deleted() {
    let home = Home::new().with_config("tenants: [{ name: CONF, requests_per_second: 7 }]");
    let mut server = home.start();
    let path = "/api/v1/tenants/PROJ";
    let made = server.client().put(path, &json!({"requests_per_second": 50}));
    assert_eq!((made.status, &made.body["requests_per_second"]), (201, &json!(50)), "{made:?}");
    assert!(made.body["created_at"].as_str().unwrap().ends_with('Z'));
    let changed = server.client().put(path, &json!({}));
    assert_eq!((changed.status, &changed.body["requests_per_second"]), (200, &Value::Null));
    assert_eq!(changed.body["created_at"], made.body["created_at"]);
    let without_body = server.client().call(ureq::http::Method::PUT, path, &[], Some(b""));
    assert_eq!(without_body.status, 200);
    server.stop();
    server = home.start();
    let client = server.client();
    let list = client.get("/api/v1/tenants").body;
    let names: Vec<&str> =
        list["tenants"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["CONF", "PROJ", "default"]);
    assert_eq!(list["tenants"][0]["requests_per_second"], 7);
    let page = client.get("/api/v1/tenants?limit=1&after=CONF").body;
    assert_eq!((&page["tenants"][0]["name"], &page["next"]), (&json!("PROJ"), &json!("PROJ")));

    assert_eq!(client.put("/api/v1/types/9012?tenant=PROJ", &json!({"sequence": {}})).status, 201);
    client.delete(path).problem(409, "in_use");
    assert_eq!(client.delete("/api/v1/types/9012?tenant=PROJ").status, 200);
    client.get("/api/v1/tenants/nobody").problem(404, "not_found");
    client.delete("/api/v1/tenants/nobody").problem(404, "not_found");
    assert_eq!(client.put("/api/v1/tenants/empty", &json!({})).status, 201);
    let gone = client.delete("/api/v1/tenants/empty");
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    client.get("/api/v1/tenants/empty").problem(404, "not_found");

    // A tenant that a type names is there by itself.
    assert_eq!(client.put("/api/v1/types/x?tenant=NEW", &json!({"sequence": {}})).status, 201);
    assert_eq!(client.get("/api/v1/tenants/NEW").status, 200);
    for (path, body) in [
        ("/api/v1/tenants/-x", json!({})),
        ("/api/v1/tenants/a%20b", json!({})),
        (path, json!({"requests_per_second": 0})),
        (path, json!({"requests_per_second": -5})),
        (path, json!({"requests_per_second": "5"})),
        (path, json!({"rate": 5})),
    ] {
        client.put(path, &body).problem(422, "invalid_request");
    }
}
