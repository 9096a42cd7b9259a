//! `/api/v1/webhooks`: others are told what happened, signed, however often it takes.

use serde_json::{Value, json};
use ureq::http::Method;

use crate::support::batches::order;
use crate::support::receiver::Receiver;
use crate::support::{Client, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
  - { tenant: OTHER, name: cap, random: { alphabet: crockford32, length: 16 } }
";

/// Failures are soon tried again: what takes hours in production takes seconds here.
fn home() -> Home {
    Home::new()
        .with_config(CONFIG)
        .with("MINTAGE__OUTBOUND__PRIVATE_ADDRESSES", "true")
        .with("MINTAGE__WEBHOOKS__RETRY_SECONDS", "1")
}

/// Makes a webhook and returns its secret.
fn put(client: &Client, name: &str, receiver: &Receiver, more: &Value) -> String {
    let mut settings = json!({"url": receiver.url()});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = client.put(&format!("/api/v1/webhooks/{name}"), &settings);
    assert_eq!(reply.status, 201, "{reply:?}");
    assert!(reply.body["disabled"].is_null(), "{reply:?}");
    reply.body["secret"].as_str().unwrap().to_owned()
}

fn deliveries(client: &Client, name: &str) -> Vec<Value> {
    let reply = client.get(&format!("/api/v1/webhooks/{name}/deliveries"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["deliveries"].as_array().unwrap().clone()
}

/// Waits until the only delivery of a webhook is in a state, and returns all about it.
fn wait_for_state(client: &Client, name: &str, state: &str) -> Value {
    wait_until(&format!("the delivery is {state}"), || {
        deliveries(client, name).first().is_some_and(|delivery| delivery["state"] == state)
    });
    let id = deliveries(client, name)[0]["id"].as_str().unwrap().to_owned();
    client.get(&format!("/api/v1/deliveries/{id}")).body
}

#[test]
fn a_batch_that_ends_is_told() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    let secret = put(client, "erp", &receiver, &json!({}));
    let body = json!({"type": "bottle", "count": 10, "name": "spring", "metadata": {"line": 3}});
    let batch = client.post("/api/v1/batches", &body).body;
    let message = receiver.wait_for(1).remove(0);
    assert!(message.is_signed_with(&secret), "{message:?}");
    assert!(!message.is_signed_with(&format!("whsec_{}", "A".repeat(43) + "=")));
    assert_eq!(message.header("content-type"), "application/json");
    assert_eq!(message.body["type"], "batch.completed");
    let data = &message.body["data"];
    assert_eq!((&data["id"], &data["state"]), (&batch["id"], &json!("completed")));
    assert_eq!((&data["made"], &data["total"]), (&json!(10), &json!(10)));
    assert_eq!((&data["name"], &data["metadata"]), (&json!("spring"), &json!({"line": 3})));

    let delivery = wait_for_state(client, "erp", "delivered");
    assert_eq!(delivery["webhook_id"], message.header("webhook-id"));
    assert_eq!((&delivery["attempts"], &delivery["event"]), (&json!(1), &json!("batch.completed")));
    assert_eq!(delivery["last_attempt"]["status"], 204);
    assert_eq!((&delivery["body"], &delivery["failed_attempts"]), (&message.body, &json!([])));

    // One that needs no rows is complete when it is ordered.
    let batch = order(client, "label", 100_000);
    let message = receiver.wait_for(2).remove(1);
    assert_eq!(message.body["data"]["id"], batch["id"]);
    assert_ne!(message.header("webhook-id"), delivery["webhook_id"]);
}

#[test]
fn only_those_are_told_who_want_to_know() {
    let (all, some, named, other) =
        (Receiver::new(), Receiver::new(), Receiver::new(), Receiver::new());
    let server = home().with("MINTAGE__BATCHES__WORKERS", "0").start();
    let client = server.client();
    put(client, "all", &all, &json!({}));
    put(client, "some", &some, &json!({"events": ["batch.completed"]}));
    put(client, "named", &named, &json!({}));
    put(client, "all", &other, &json!({"tenant": "OTHER"}));
    // Nobody works on it, so that it can be cancelled.
    let batch = order(client, "bottle", 10);
    let cancel = format!("/api/v1/batches/{}/cancel", batch["id"].as_str().unwrap());
    assert_eq!(client.post(&cancel, &json!({})).status, 200);
    assert_eq!(all.wait_for(1)[0].body["type"], "batch.cancelled");
    assert_eq!(named.wait_for(1)[0].body["data"]["state"], "cancelled");

    let order = |notify: Value| {
        let body = json!({"type": "label", "count": 10, "notify": notify});
        client.post("/api/v1/batches", &body)
    };
    assert_eq!(order(json!([])).body["notify"], json!([]));
    let ordered = order(json!(["named", "named"]));
    assert_eq!((ordered.status, &ordered.body["notify"]), (202, &json!(["named"])));
    order(json!(vec!["named"; 17])).problem(422, "invalid_request");
    assert_eq!(named.wait_for(2)[1].body["data"]["id"], ordered.body["id"]);
    let detail = order(json!(["nobody"])).problem(422, "invalid_request").to_owned();
    assert!(detail.contains("nobody"), "{detail}");
    // A last one for all, behind which nothing can be under way.
    assert_eq!(order(Value::Null).status, 202);
    assert_eq!(all.wait_for(2).len(), 2);
    assert_eq!(some.wait_for(1).len(), 1);
    assert_eq!(named.wait_for(3).len(), 3);
    assert!(other.messages().is_empty());
}

#[test]
fn what_fails_is_tried_again_with_the_same_id() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    let secret = put(client, "erp", &receiver, &json!({}));
    receiver.answer(500);
    order(client, "label", 1);
    receiver.wait_for(2);
    receiver.answer(200);
    let delivery = wait_for_state(client, "erp", "delivered");
    let messages = receiver.messages();
    assert_eq!(delivery["attempts"], messages.len());
    assert!(messages.iter().all(|message| {
        message.header("webhook-id") == delivery["webhook_id"].as_str().unwrap()
            && message.text == messages[0].text
            && message.is_signed_with(&secret)
    }));
    let failed = delivery["failed_attempts"].as_array().unwrap();
    assert_eq!(failed.len(), messages.len() - 1);
    assert_eq!((&failed[0]["number"], &failed[0]["status"]), (&json!(1), &json!(500)));
    assert!(failed[0]["error"].as_str().unwrap().contains("500"), "{delivery}");
}

#[test]
fn redirects_count_as_failures_and_are_not_followed() {
    let (receiver, elsewhere) = (Receiver::new(), Receiver::new());
    let server = home().with("MINTAGE__WEBHOOKS__RETRIES", "0").start();
    let client = server.client();
    put(client, "erp", &receiver, &json!({}));
    receiver.answer_with(307, "location", &elsewhere.url());
    order(client, "label", 1);
    let delivery = wait_for_state(client, "erp", "dead");
    assert_eq!(delivery["last_attempt"]["status"], 307);
    assert!(delivery["next_attempt_at"].is_null() && delivery["settled_at"].is_string());
    assert!(elsewhere.messages().is_empty());

    // A person can have it sent again, or give it up.
    let id = delivery["id"].as_str().unwrap();
    receiver.answer(204);
    let replay = format!("/api/v1/deliveries/{id}/replay");
    assert_eq!(client.post(&replay, &json!({})).status, 202);
    let delivery = wait_for_state(client, "erp", "delivered");
    assert_eq!((&delivery["attempts"], receiver.messages().len()), (&json!(1), 2));
    assert_eq!(client.post(&replay, &json!({})).status, 202, "what has arrived, too");
    receiver.wait_for(3);
    wait_for_state(client, "erp", "delivered");
    let abandon = format!("/api/v1/deliveries/{id}/abandon");
    client.post(&abandon, &json!({})).problem(409, "delivery_ended");
    client.post("/api/v1/deliveries/12345/replay", &json!({})).problem(404, "not_found");
}

#[test]
fn a_receiver_that_is_gone_is_told_no_more() {
    let (receiver, other, server) = (Receiver::new(), Receiver::new(), home().start());
    let client = server.client();
    put(client, "erp", &receiver, &json!({}));
    put(client, "other", &other, &json!({}));
    receiver.answer(410);
    order(client, "label", 1);
    let delivery = wait_for_state(client, "erp", "dead");
    assert_eq!(delivery["last_attempt"]["status"], 410);
    let webhook = client.get("/api/v1/webhooks/erp").body;
    assert!(webhook["disabled"]["reason"].as_str().unwrap().contains("410"), "{webhook}");
    order(client, "label", 1);
    // It is decided for all webhooks together who is told.
    other.wait_for(2);
    // Once somebody puts it again it is told of what happens from then on.
    receiver.answer(204);
    let again = client.put("/api/v1/webhooks/erp", &json!({"url": receiver.url()}));
    assert_eq!((again.status, &again.body["disabled"]), (200, &Value::Null));
    assert!(again.body["secret"].is_null(), "{again:?}");
    let batch = order(client, "label", 1);
    assert_eq!(receiver.wait_for(2)[1].body["data"]["id"], batch["id"]);
}

#[test]
fn what_waits_for_a_receiver_that_is_gone_can_be_replayed() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    put(client, "erp", &receiver, &json!({}));
    receiver.answer(500);
    let first = order(client, "label", 1);
    receiver.wait_for(1);
    receiver.answer(410);
    order(client, "label", 1);
    wait_until("both are dead letters", || {
        let all = deliveries(client, "erp");
        all.len() == 2 && all.iter().all(|delivery| delivery["state"] == "dead")
    });
    receiver.answer(204);
    let again = client.put("/api/v1/webhooks/erp", &json!({"url": receiver.url()}));
    assert_eq!((again.status, &again.body["disabled"]), (200, &Value::Null));
    let waited = deliveries(client, "erp").remove(1);
    let replay = format!("/api/v1/deliveries/{}/replay", waited["id"].as_str().unwrap());
    assert_eq!(client.post(&replay, &json!({})).status, 202);
    wait_until("it has arrived", || deliveries(client, "erp")[1]["state"] == "delivered");
    assert_eq!(receiver.messages().last().unwrap().body["data"]["id"], first["id"]);
}

#[test]
fn a_new_secret_and_the_old_one_overlap() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    let first = put(client, "erp", &receiver, &json!({}));
    let rotate = |hours: u32| {
        let reply = client.post("/api/v1/webhooks/erp/rotate", &json!({"overlap_hours": hours}));
        assert_eq!(reply.status, 200, "{reply:?}");
        let expiring = reply.body["old_secrets_expire_at"].as_array().unwrap().len();
        (reply.body["secret"].as_str().unwrap().to_owned(), expiring)
    };
    let (second, expiring) = rotate(24);
    assert_eq!(expiring, 1);
    order(client, "label", 1);
    let message = receiver.wait_for(1).remove(0);
    assert!(message.is_signed_with(&first) && message.is_signed_with(&second));
    let (third, expiring) = rotate(0);
    assert_eq!(expiring, 0);
    let trial = client.post("/api/v1/webhooks/erp/test", &json!({})).body;
    assert_eq!((&trial["delivered"], &trial["status"]), (&json!(true), &json!(204)));
    let message = receiver.wait_for(2).remove(1);
    assert_eq!(message.body["type"], "webhook.test");
    assert!(message.is_signed_with(&third));
    assert!(!message.is_signed_with(&second) && !message.is_signed_with(&first));
    client
        .post("/api/v1/webhooks/erp/rotate", &json!({"overlap_hours": 169}))
        .problem(422, "invalid_request");
    client.post("/api/v1/webhooks/none/rotate", &json!({})).problem(404, "not_found");
}

#[test]
fn secrets_are_stored_sealed_and_shown_once() {
    let home = home();
    let (receiver, server) = (Receiver::new(), home.start());
    let secret = put(server.client(), "erp", &receiver, &json!({}));
    let shown = server.client().get("/api/v1/webhooks/erp").text;
    assert!(!shown.contains("secret\":") && !shown.contains(&secret), "{shown}");
    let log = server.stop();
    let bare = secret.strip_prefix("whsec_").unwrap();
    assert!(!log.contains(bare));
    let stored = home.stored();
    assert!(!stored.windows(bare.len()).any(|window| window == bare.as_bytes()));
    // It is still known after a restart.
    let server = home.start();
    order(server.client(), "label", 1);
    assert!(receiver.wait_for(1)[0].is_signed_with(&secret));
}

#[test]
fn what_is_under_way_survives_a_crash() {
    let home = home();
    let (receiver, server) = (Receiver::new(), home.start());
    put(server.client(), "erp", &receiver, &json!({}));
    receiver.answer(503);
    let batch = order(server.client(), "label", 1);
    receiver.wait_for(1);
    server.kill();
    receiver.answer(204);
    let server = home.with("MINTAGE__WEBHOOKS__TIMEOUT_SECONDS", "1").start();
    let delivery = wait_for_state(server.client(), "erp", "delivered");
    assert_eq!(delivery["body"]["data"]["id"], batch["id"]);
}

#[test]
fn nothing_is_sent_inside_unless_the_configuration_allows_it() {
    let server = home().with("MINTAGE__OUTBOUND__PRIVATE_ADDRESSES", "false").start();
    let client = server.client();
    let put = |url: &str| client.put("/api/v1/webhooks/erp", &json!({"url": url}));
    for url in ["https://127.0.0.1/", "https://[::1]/x", "https://0x7f.1/", "http://example.com/"] {
        put(url).problem(422, "invalid_request");
    }
    // A name can only be judged when it is looked up, which happens at every attempt.
    assert_eq!(put("https://localhost/").status, 201);
    let trial = client.post("/api/v1/webhooks/erp/test", &json!({})).body;
    assert_eq!(trial["delivered"], false);
    assert!(trial["error"].as_str().unwrap().contains("out on the internet"), "{trial}");
}

#[test]
fn webhooks_are_listed_changed_and_deleted() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    put(client, "b", &receiver, &json!({}));
    put(client, "a", &receiver, &json!({"events": ["batch.cancelled"]}));
    put(client, "a", &receiver, &json!({"tenant": "OTHER"}));
    let names = |query: &str| {
        let listed = client.get(&format!("/api/v1/webhooks{query}")).body;
        let webhooks = listed["webhooks"].as_array().unwrap().clone();
        let name = |webhook: &Value| format!("{}/{}", webhook["tenant"], webhook["name"]);
        webhooks.iter().map(name).collect::<Vec<_>>().join(" ").replace('"', "")
    };
    assert_eq!(names(""), "OTHER/a default/a default/b");
    assert_eq!(names("?tenant=OTHER"), "OTHER/a");
    put(client, "only", &receiver, &json!({"tenant": "NEW"}));
    client.delete("/api/v1/tenants/NEW").problem(409, "in_use");
    assert_eq!(client.delete("/api/v1/webhooks/only?tenant=NEW").status, 204);
    assert_eq!(client.delete("/api/v1/tenants/NEW").status, 204);
    let changed = client
        .put("/api/v1/webhooks/a", &json!({"url": receiver.url(), "events": ["batch.completed"]}));
    assert_eq!((changed.status, &changed.body["events"]), (200, &json!(["batch.completed"])));

    receiver.answer(500);
    order(client, "label", 1);
    receiver.wait_for(2);
    assert_eq!(client.delete("/api/v1/webhooks/a").status, 204);
    client.get("/api/v1/webhooks/a").problem(404, "not_found");
    client.delete("/api/v1/webhooks/a").problem(404, "not_found");
    assert_eq!(names(""), "OTHER/a default/b");
    for wrong in [
        json!({}),
        json!({"url": 7}),
        json!({"url": "nonsense"}),
        json!({"url": receiver.url(), "events": []}),
        json!({"url": receiver.url(), "events": ["batch.started"]}),
        json!({"url": receiver.url(), "events": ["webhook.test"]}),
        json!({"url": receiver.url(), "secret": "x"}),
    ] {
        client.put("/api/v1/webhooks/a", &wrong).problem(422, "invalid_request");
    }
    client
        .put("/api/v1/webhooks/a%20b", &json!({"url": receiver.url()}))
        .problem(422, "invalid_request");
}

#[test]
fn tenants_see_their_own_webhooks_only() {
    let home = home();
    let admin = home.create_key(&["--name", "admin", "--scope", "admin"]);
    let theirs = home.create_key(&["--name", "theirs", "--scope", "admin", "--tenant", "OTHER"]);
    let batch = home.create_key(&["--name", "batch", "--scope", "batch"]);
    let (receiver, server) = (Receiver::new(), home.start());
    let (admin, theirs) = (server.client_with(&admin), server.client_with(&theirs));
    put(&admin, "erp", &receiver, &json!({}));
    order(&admin, "label", 1);
    let delivery = wait_for_state(&admin, "erp", "delivered");
    let path = format!("/api/v1/deliveries/{}", delivery["id"].as_str().unwrap());
    theirs.get("/api/v1/webhooks/erp").problem(404, "not_found");
    theirs.get(&path).problem(404, "not_found");
    theirs.post(&format!("{path}/replay"), &json!({})).problem(404, "not_found");
    theirs.get("/api/v1/webhooks?tenant=default").problem(403, "wrong_tenant");
    server.client_with(&batch).get("/api/v1/webhooks").problem(403, "missing_scope");
    let body = json!({"type": "cap", "count": 1, "notify": ["erp"]});
    theirs.post("/api/v1/batches", &body).problem(422, "invalid_request");
}

#[test]
fn a_repeated_trial_is_made_once() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    put(client, "erp", &receiver, &json!({}));
    let call = |call: &str| {
        let path = format!("/api/v1/webhooks/erp/{call}");
        client.call(Method::POST, &path, &[("idempotency-key", "k")], Some(b"{}"))
    };
    let first = call("test");
    assert_eq!((first.status, &first.body["delivered"]), (200, &json!(true)), "{first:?}");
    let again = call("test");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!((again.body, receiver.messages().len()), (first.body, 1));
    // A secret is not kept, so it cannot be given again.
    call("rotate").problem(422, "idempotency_key_refused");
}

#[test]
fn a_repeated_decision_is_made_once() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    put(client, "erp", &receiver, &json!({}));
    order(client, "label", 1);
    let delivery = wait_for_state(client, "erp", "delivered");
    let path = format!("/api/v1/deliveries/{}/replay", delivery["id"].as_str().unwrap());
    let replay = || client.call(Method::POST, &path, &[("idempotency-key", "k")], Some(b"{}"));
    assert_eq!(replay().status, 202);
    receiver.wait_for(2);
    wait_for_state(client, "erp", "delivered");
    let again = replay();
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    order(client, "label", 1);
    assert_eq!(receiver.wait_for(3).len(), 3);
}
