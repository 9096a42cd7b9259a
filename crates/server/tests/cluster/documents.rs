//! Documents that several instances assign and deliver, one of which is killed.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};
use ureq::http::Method;

use crate::instances::start_together;
use crate::support::sinks::{
    CONFIG, directory, files, gaps, root, wait_for_files, with_sinks_nearby,
};
use crate::support::{Client, Deployment, Home, wait_until};

on_every_cluster!(what_a_killed_instance_has_acknowledged_arrives_once);

/// Assigns IDs one by one until the instance is gone, and returns those that it has told.
fn assign_until_gone(url: &str, type_name: &str, most: usize) -> BTreeMap<String, Value> {
    let (client, mut told) = (Client::new(url), BTreeMap::new());
    for number in 0..most {
        let payload = json!({"from": url, "type": type_name, "number": number});
        let order = json!({"type": type_name, "payload": payload}).to_string();
        let reply = client.try_call(Method::POST, "/api/v1/documents", &[], Some(order.as_bytes()));
        let Ok(reply) = reply else { break };
        assert_eq!(reply.status, 202, "{reply:?}");
        told.insert(reply.body["id"].as_str().unwrap().to_owned(), payload);
    }
    told
}

fn what_a_killed_instance_has_acknowledged_arrives_once(deployment: Deployment) {
    let home = Home::on(deployment, test_services::Servers::shared()).with_config(CONFIG);
    let home = with_sinks_nearby(home).with("MINTAGE__DOCUMENTS__TIMEOUT_SECONDS", "1");
    let mut servers = start_together(&home, 3);
    directory(servers[0].client(), "archive", &json!({}));
    let place = root(&home).join("default/archive");
    let knows = |client: &Client| client.get("/api/v1/sinks/archive").status == 200;
    wait_until("all know the sink", || servers.iter().all(|server| knows(server.client())));
    let urls: Vec<_> = servers.iter().map(|server| server.url.clone()).collect();
    let told: Vec<BTreeMap<String, Value>> = thread::scope(|scope| {
        let clients: Vec<_> = urls
            .iter()
            .flat_map(|url| ["order", "invoice"].map(|type_name| (url, type_name)))
            .map(|(url, type_name)| scope.spawn(move || assign_until_gone(url, type_name, 300)))
            .collect();
        wait_until("some have arrived", || files(&place.join("invoice")).len() > 50);
        servers.remove(2).kill();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let told: BTreeMap<String, Value> = told.into_iter().flatten().collect();
    for type_name in ["order", "invoice"] {
        let told = told.iter().filter(|(_, payload)| payload["type"] == type_name);
        let told: BTreeMap<_, _> =
            told.map(|(id, payload)| (id.clone(), payload.clone())).collect();
        wait_until("all have arrived", || {
            let there = files(&place.join(type_name));
            told.keys().all(|id| there.contains_key(id))
        });
        let there = wait_for_files(&place.join(type_name), told.len());
        for (id, payload) in &told {
            assert_eq!(&there[id], payload, "nothing is delivered under another's ID");
        }
        let of = |payload: &Value| format!("{} {}", payload["from"], payload["number"]);
        let payloads: std::collections::BTreeSet<String> = there.values().map(of).collect();
        assert_eq!(payloads.len(), there.len(), "each document has one ID");
    }
    let client = servers[0].client();
    assert!(gaps(client, "invoice").is_empty());
    // The killed one may have had one on record that it had told nobody yet.
    wait_until("no number is missing", || {
        let invoices = files(&place.join("invoice"));
        invoices.keys().last() == Some(&format!("INV-{:06}", invoices.len()))
    });
}
