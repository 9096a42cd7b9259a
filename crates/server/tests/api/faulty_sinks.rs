//! Sinks that take a document and do not say so, or cannot be reached: nothing is lost, and nothing arrives
//! under another's ID.

use std::net::TcpListener;

use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::sinks::{address, assign, document, gaps, home, wait_for_state};
use crate::support::{Home, wait_until};

#[test]
fn a_document_whose_sink_was_cut_off_is_sent_again_under_the_same_key() {
    let (receiver, server) = (Receiver::new(), home().start());
    let client = server.client();
    address(client, "erp", &receiver, &json!({}));
    receiver.cut_off(true);
    let payload = json!({"amount": 1});
    let id = assign(client, "order", &payload);
    receiver.wait_for(1);
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    let pending = document(client, &id);
    assert_eq!(pending["state"], "PENDING");
    assert!(pending["last_error"].as_str().unwrap().contains("no answer"), "{pending}");
    receiver.cut_off(false);
    wait_for_state(client, &id, "COMMITTED");
    let messages = receiver.messages();
    assert!(messages.len() > 1, "{messages:?}");
    for message in messages {
        assert_eq!((message.header("idempotency-key"), &message.body), (id.as_str(), &payload));
    }
    let listed = client.get("/api/v1/documents?type=order").body;
    assert_eq!(listed["documents"].as_array().unwrap().len(), 1, "{listed}");
    assert!(gaps(client, "order").is_empty());
}

#[test]
fn a_document_waits_for_a_sink_that_refuses_connections() {
    let server = home().start();
    let client = server.client();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sink = json!({"url": format!("http://{nobody}/documents")});
    assert_eq!(client.put("/api/v1/sinks/erp", &sink).status, 201);
    let id = assign(client, "order", &json!(1));
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    let pending = document(client, &id);
    assert_eq!(pending["state"], "PENDING");
    assert!(pending["last_error"].as_str().unwrap().contains("cannot connect"), "{pending}");
    // Somebody has found out that it moved.
    let receiver = Receiver::new();
    assert_eq!(client.put("/api/v1/sinks/erp", &json!({"url": receiver.url()})).status, 200);
    wait_for_state(client, &id, "COMMITTED");
    assert_eq!(receiver.messages().len(), 1);
    assert!(gaps(client, "order").is_empty());
}

/// A rate would say nothing about what did not arrive.
#[test]
fn a_benchmark_whose_documents_are_lost_has_no_result() {
    // Nothing can be written there, whoever runs this.
    let home = Home::embedded()
        .with("MINTAGE__OUTBOUND__DIRECTORY", "/proc/self")
        .with("MINTAGE__DOCUMENTS__RETRIES", "0");
    let lost = home.run(&["bench", "documents", "--documents", "20", "--per-call", "10"]);
    let message = String::from_utf8_lossy(&lost.stderr);
    assert!(!lost.status.success() && message.contains("could not be delivered"), "{lost:?}");
    assert!(lost.stdout.is_empty(), "{lost:?}");
    let home = home.without("MINTAGE__OUTBOUND__DIRECTORY");
    let printed = home.ok(&["bench", "documents", "--documents", "20", "--per-call", "10"]);
    assert!(printed.contains("assign_many") && printed.contains("deliver_many"), "{printed}");
}
