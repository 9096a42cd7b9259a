//! `/api/v1/sinks`: documents arrive, signed, however often it takes; or are dead letters.

use std::fs;

use serde_json::{Value, json};

use crate::support::bucket::{ACCESS_KEY_ID, Bucket, REGION, SECRET};
use crate::support::receiver::Receiver;
use crate::support::sinks::{
    address, assign, directory, document, files, gaps, home, root, wait_for_files, wait_for_state,
    with_sinks_nearby,
};
use crate::support::{Client, Home, wait_until};

fn dead_letters(client: &Client, query: &str) -> Vec<Value> {
    let reply = client.get(&format!("/api/v1/dead-letters?{query}"));
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["dead_letters"].as_array().unwrap().clone()
}

fn decide(client: &Client, what: &str, body: &Value) -> Value {
    let reply = client.post(&format!("/api/v1/dead-letters/{what}"), body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["settled"].clone()
}

#[test]
fn an_address_is_sent_documents_that_are_signed() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    let secret = address(client, "erp", &receiver, &json!({}));
    let id = assign(client, "order", &json!({"amount": 1.50}));
    let message = receiver.wait_for(1).remove(0);
    assert!(message.is_signed_with(&secret), "{message:?}");
    assert_eq!(message.body, json!({"amount": 1.50}));
    assert_eq!(message.text, r#"{"amount":1.5}"#, "as the client has written it");
    assert_eq!(message.header("idempotency-key"), id);
    assert_eq!(message.header("webhook-id"), format!("default/order/{id}"), "this is signed");
    assert_eq!(message.header("mintage-project"), "default");
    assert_eq!(message.header("mintage-type"), "order");
    assert_eq!(message.header("content-type"), "application/json");
    wait_for_state(client, &id, "COMMITTED");
    // The secret is shown once, and stays.
    let again = client.put("/api/v1/sinks/erp", &json!({"url": receiver.url()}));
    assert_eq!((again.status, &again.body["secret"]), (200, &Value::Null));
    assign(client, "order", &json!(2));
    assert!(receiver.wait_for(2)[1].is_signed_with(&secret));
}

#[test]
fn what_fails_is_tried_again_with_the_same_id() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.answer(503);
    let id = assign(client, "order", &json!(1));
    receiver.wait_for(1);
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    let pending = document(client, &id);
    assert_eq!(pending["state"], "PENDING");
    assert!(pending["last_error"].as_str().unwrap().contains("503"), "{pending}");
    assert!(pending["next_attempt_at"].is_string() && pending["settled_at"].is_null());
    receiver.wait_for(2);
    receiver.answer(200);
    let done = wait_for_state(client, &id, "COMMITTED");
    let messages = receiver.messages();
    assert_eq!(done["attempts"], messages.len());
    assert!(messages.iter().all(|message| message.header("idempotency-key") == id));
    assert!(gaps(client, "order").is_empty());
}

#[test]
fn what_a_sink_rejects_is_a_dead_letter_at_once() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.answer(422);
    let id = assign(client, "order", &json!(1));
    let dead = wait_for_state(client, &id, "DEAD_LETTER");
    assert_eq!((&dead["attempts"], receiver.messages().len()), (&json!(1), 1));
    let letters = dead_letters(client, "kind=document");
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((&letter["kind"], &letter["document"]), (&json!("document"), &json!(id)));
    assert_eq!((&letter["tenant"], &letter["type"]), (&json!("default"), &json!("order")));
    assert!(letter["error"].as_str().unwrap().contains("422"), "{letter}");
    let found = gaps(client, "order");
    assert_eq!((&found[0]["reason"], &found[0]["first_id"]), (&json!("outbox_dlq"), &json!(id)));
    assert!(found[0]["closed_at"].is_null());

    // Retrying keeps the ID, and closes the gap when the document has arrived.
    receiver.answer(200);
    let order = json!({"document": id, "reason": "the sink was mended"});
    assert_eq!(decide(client, "retry", &order), 1);
    wait_for_state(client, &id, "COMMITTED");
    assert_eq!(receiver.messages()[1].header("idempotency-key"), id);
    assert!(dead_letters(client, "").is_empty());
    let found = gaps(client, "order");
    assert_eq!((found.len(), found[0]["closed_at"].is_string()), (1, true), "{found:?}");
    let open = client.get("/api/v1/ids/gaps?type=order").body;
    assert_eq!((&open["gaps"], &open["total"]), (&json!([]), &json!(0)));
    let deeds = client.get("/api/v1/audit?action=document.retried").body;
    assert_eq!(deeds["deeds"][0]["subject"], format!("default/order/{id}"));
    assert_eq!(deeds["deeds"][0]["detail"]["reason"], "the sink was mended");
    assert_eq!(decide(client, "retry", &order), 0, "it has arrived");
}

/// Sinks that do not know what to do with a document, or say that it is elsewhere.
#[test]
fn nobody_is_led_elsewhere_and_what_is_gone_is_a_dead_letter() {
    let (receiver, elsewhere, server) = (Receiver::new(), Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.answer_with(302, "location", &elsewhere.url());
    let id = assign(client, "order", &json!(1));
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    assert_eq!(document(client, &id)["state"], "PENDING", "it may be mended");
    receiver.answer(410);
    wait_for_state(client, &id, "DEAD_LETTER");
    assert!(elsewhere.messages().is_empty());
}

/// A receiver that remembers what it has got must not take one for the other.
#[test]
fn equal_ids_of_two_types_are_told_apart() {
    let receiver = Receiver::new();
    let types = "
id_types:
  - { name: a, sequence: { template: '{seq}' } }
  - { name: b, sequence: { template: '{seq}' } }
";
    let server = with_sinks_nearby(Home::new().with_config(types)).start();
    let secret = address(server.client(), "erp", &receiver, &json!({}));
    for type_name in ["a", "b"] {
        assert_eq!(assign(server.client(), type_name, &json!(type_name)), "1");
    }
    let mut messages = receiver.wait_for(2);
    messages.sort_by_key(|message| message.text.clone());
    for (message, type_name) in messages.iter().zip(["a", "b"]) {
        assert!(message.is_signed_with(&secret), "{message:?}");
        assert_eq!(message.header("webhook-id"), format!("default/{type_name}/1"));
        assert_eq!(message.header("idempotency-key"), "1");
    }
}

#[test]
fn what_somebody_has_accepted_keeps_its_reason() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.answer(422);
    let id = assign(client, "order", &json!(1));
    wait_for_state(client, &id, "DEAD_LETTER");
    let gap = gaps(client, "order").remove(0);
    let path = format!("/api/v1/ids/gaps/{}/sign-off", gap["id"].as_str().unwrap());
    client.post(&path, &json!({"type": "order", "note": "will be retried"}));
    assert_eq!(decide(client, "abandon", &json!({"document": id, "project": "default"})), 1);
    let found = gaps(client, "order");
    assert_eq!((&found[0]["reason"], found.len()), (&json!("outbox_dlq"), 2));
    assert_eq!(found[0]["signed_off"]["note"], "will be retried");
    assert_eq!(found[0]["closed_at"], found[1]["detected_at"]);
    assert_eq!((&found[1]["reason"], &found[1]["signed_off"]), (&json!("abandoned"), &Value::Null));
    assert_eq!(found[1]["lost_at"], found[1]["detected_at"]);
    assert!(dead_letters(client, "project=default").is_empty());
}

#[test]
fn a_bucket_gets_an_object_for_each_document() {
    let (bucket, server) = (Bucket::new(), home().start());
    let client = server.client();
    let settings = |more: Value| {
        let mut settings = json!({"endpoint": bucket.endpoint(), "name": "papers",
            "region": REGION, "prefix": "in/", "access_key_id": ACCESS_KEY_ID});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"bucket": settings})
    };
    let put = |settings: &Value| client.put("/api/v1/sinks/archive", settings);
    let missing = put(&settings(json!({})));
    assert!(missing.problem(422, "invalid_request").contains("secret_access_key"));
    put(&settings(json!({"name": "", "secret_access_key": SECRET})))
        .problem(422, "invalid_request");
    put(&settings(json!({"prefix": "../", "secret_access_key": SECRET})))
        .problem(422, "invalid_request");

    // The wrong secret is no reason to give documents up.
    let made = put(&settings(json!({"secret_access_key": "wrong"})));
    assert_eq!((made.status, &made.body["secret"]), (201, &Value::Null), "{made:?}");
    assert!(!made.text.contains("wrong"), "{made:?}");
    let id = assign(client, "order", &json!({"amount": 1}));
    wait_until("it was refused", || document(client, &id)["last_error"].is_string());
    let refused = document(client, &id);
    assert!(refused["last_error"].as_str().unwrap().contains("403"), "{refused}");
    assert_eq!(refused["state"], "PENDING");
    assert_eq!(put(&settings(json!({"secret_access_key": SECRET}))).status, 200);
    wait_for_state(client, &id, "COMMITTED");
    // The secret is known from here on.
    assert_eq!(put(&settings(json!({}))).status, 200);
    let other = assign(client, "invoice", &json!([2]));
    wait_for_state(client, &other, "COMMITTED");
    let objects = bucket.objects();
    assert_eq!(objects[&format!("/papers/in/order/{id}.json")], r#"{"amount":1}"#);
    assert_eq!(objects[&format!("/papers/in/invoice/{other}.json")], "[2]");
    assert_eq!(objects.len(), 2);
    let shown = client.get("/api/v1/sinks/archive");
    assert_eq!(shown.body["bucket"]["name"], "papers");
    assert!(shown.body["bucket"]["secret_access_key"].is_null(), "{shown:?}");
}

/// It was given up on while the sink was still at it.
#[test]
fn a_document_that_a_slow_sink_takes_after_all_closes_its_gap() {
    let receiver = Receiver::new();
    let server = home()
        .with("MINTAGE__DOCUMENTS__RETRIES", "0")
        .with("MINTAGE__DOCUMENTS__TIMEOUT_SECONDS", "1")
        .start();
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.hold();
    let id = assign(client, "order", &json!(1));
    wait_for_state(client, &id, "DEAD_LETTER");
    assert!(gaps(client, "order")[0]["closed_at"].is_null());
    receiver.release();
    wait_for_state(client, &id, "COMMITTED");
    assert_eq!(receiver.messages().len(), 1, "nobody has sent it again");
    let found = gaps(client, "order");
    assert_eq!((&found[0]["reason"], found.len()), (&json!("outbox_dlq"), 1));
    assert!(found[0]["detected_at"].is_string() && found[0]["closed_at"].is_string());
    assert!(dead_letters(client, "").is_empty());
}

#[test]
fn what_fails_too_often_is_a_dead_letter_and_can_be_given_up() {
    let receiver = Receiver::new();
    let server = home().with("MINTAGE__DOCUMENTS__RETRIES", "1").start();
    let client = server.client();
    address(client, "erp", &receiver, &json!({"types": ["order"]}));
    directory(client, "archive", &json!({}));
    receiver.answer(500);
    let ids: Vec<_> = (0..3).map(|n| assign(client, "order", &json!(n))).collect();
    // The other sink is not held up by this one.
    let other = assign(client, "invoice", &json!(1));
    wait_for_state(client, &other, "COMMITTED");
    for id in &ids {
        assert_eq!(wait_for_state(client, id, "DEAD_LETTER")["attempts"], 2);
    }
    assert_eq!(dead_letters(client, "type=order").len(), 3);
    assert!(dead_letters(client, "type=invoice").is_empty());
    assert!(dead_letters(client, "kind=chunk").is_empty());
    let first = client.get("/api/v1/dead-letters?limit=2").body;
    let after = first["next"].as_str().unwrap();
    assert_eq!(dead_letters(client, &format!("limit=2&after={after}")).len(), 1);
    client.get("/api/v1/dead-letters?after=document-x").problem(422, "invalid_request");
    client.get("/api/v1/dead-letters?kind=letter").problem(422, "invalid_request");

    let one = json!({"type": "order", "document": ids[1], "reason": "typed twice"});
    assert_eq!(decide(client, "abandon", &one), 1);
    let given_up = document(client, &ids[1]);
    assert_eq!(given_up["state"], "ABANDONED");
    assert_eq!(decide(client, "abandon", &json!({"type": "order"})), 2);
    let found = gaps(client, "order");
    let (over, open): (Vec<_>, Vec<_>) = found.iter().partition(|gap| gap["closed_at"].is_string());
    let reasons =
        |gaps: &[&Value]| gaps.iter().map(|gap| gap["reason"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (reasons(&over), reasons(&open)),
        (vec![json!("outbox_dlq"); 3], vec![json!("abandoned"); 3])
    );
    assert!(dead_letters(client, "").is_empty());
    assert_eq!(decide(client, "retry", &json!({"document": ids[1]})), 0, "that was for good");
    client
        .post("/api/v1/dead-letters/abandon", &json!({"reason": "\u{7}"}))
        .problem(422, "invalid_request");
    client
        .post("/api/v1/dead-letters/abandon", &json!({"documnet": "x"}))
        .problem(422, "invalid_request");
}

#[test]
fn documents_arrive_in_order_where_that_counts() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({"ordered": true}));
    receiver.answer(503);
    let ids: Vec<_> = (0..5).map(|n| assign(client, "order", &json!(n))).collect();
    receiver.wait_for(2);
    assert!(receiver.messages().iter().all(|message| message.body == 0), "it holds up the others");
    receiver.answer(200);
    wait_for_state(client, &ids[4], "COMMITTED");
    let arrived: Vec<_> = receiver.messages().into_iter().map(|message| message.body).collect();
    let mut in_order: Vec<_> = arrived.clone();
    in_order.sort_by_key(Value::as_u64);
    assert_eq!(arrived, in_order);
}

#[test]
fn what_is_pending_survives_a_crash() {
    let home = home();
    let server = home.start();
    let receiver = Receiver::new();
    address(server.client(), "erp", &receiver, &json!({}));
    receiver.answer(503);
    let ids: Vec<_> = (0..3).map(|n| assign(server.client(), "order", &json!(n))).collect();
    server.kill();
    receiver.answer(200);
    let server = home.with("MINTAGE__DOCUMENTS__TIMEOUT_SECONDS", "1").start();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(wait_for_state(server.client(), id, "COMMITTED")["payload"], n);
    }
    // What was drawn ahead and not used is explained.
    let next = assign(server.client(), "order", &json!("next"));
    assert!(!ids.contains(&next));
}

/// It may be a disk that somebody has unplugged.
#[test]
fn what_the_directories_are_in_is_not_made_again() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    let (here, away) = (root(&home), root(&home).with_file_name("away"));
    fs::rename(&here, &away).unwrap();
    let id = assign(client, "order", &json!(1));
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    let error = document(client, &id)["last_error"].clone();
    assert_eq!(error, "the server's outbound.directory is not there");
    assert!(!here.exists());
    fs::rename(&away, &here).unwrap();
    wait_for_state(client, &id, "COMMITTED");
}

#[test]
fn a_directory_that_is_in_the_way_delays_documents_only() {
    let home = home();
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    fs::create_dir_all(root(&home).join("default")).unwrap();
    let in_the_way = root(&home).join("default/archive");
    fs::write(&in_the_way, "a file").unwrap();
    let id = assign(client, "order", &json!(1));
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    fs::remove_file(&in_the_way).unwrap();
    wait_for_state(client, &id, "COMMITTED");
    assert_eq!(files(&in_the_way.join("order"))[&id], 1);
}

#[test]
fn sinks_are_listed_changed_and_deleted() {
    let (receiver, home) = (Receiver::new(), home());
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({"types": ["order"]}));
    let sink = client.get("/api/v1/sinks/archive").body;
    assert_eq!((&sink["directory"], &sink["types"]), (&json!("archive"), &json!(["order"])));
    assert_eq!(sink["ordered"], false);
    assert_eq!(client.get("/api/v1/sinks").body["sinks"], json!([sink]));
    // Two sinks for one type would be a matter of luck.
    let second = json!({"url": receiver.url(), "types": ["invoice", "order"]});
    let detail =
        client.put("/api/v1/sinks/erp", &second).problem(422, "invalid_request").to_owned();
    assert!(detail.contains("archive") && detail.contains("order"), "{detail}");
    for wrong in [
        json!({}),
        json!({"directory": "a", "url": receiver.url()}),
        json!({"directory": "../a"}),
        json!({"directory": "/etc"}),
        json!({"url": "gopher://example.com"}),
        json!({"directory": "a", "types": []}),
        json!({"directory": "a", "colour": "red"}),
    ] {
        client.put("/api/v1/sinks/erp", &wrong).problem(422, "invalid_request");
    }
    // One that has something to deliver stays.
    address(client, "erp", &receiver, &json!({}));
    receiver.answer(422);
    let id = assign(client, "invoice", &json!(1));
    wait_for_state(client, &id, "DEAD_LETTER");
    client.delete("/api/v1/sinks/erp").problem(409, "in_use");
    assert_eq!(decide(client, "abandon", &json!({"document": id})), 1);
    assert_eq!(client.delete("/api/v1/sinks/erp").status, 204);
    client.get("/api/v1/sinks/erp").problem(404, "not_found");
    client.delete("/api/v1/sinks/erp").problem(404, "not_found");
    // What it was given is still known.
    assert_eq!(document(client, &id)["state"], "ABANDONED");
    assign(client, "order", &json!(1));
    wait_for_files(&root(&home).join("default/archive/order"), 1);
}
