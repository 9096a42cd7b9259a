//! A space that several instances use up together.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread;

use serde_json::json;
use test_services::Servers;

use crate::instances::start_together;
use crate::support::{Client, Deployment, Home, Server, assert_new, wait_until};

on_every_cluster!(each_id_of_a_small_type_comes_once_and_then_none_from_any_instance);

/// Takes one ID if there is one.
fn take_one(client: &Client) -> Option<String> {
    let reply = client.order(r#"{"type":"tiny"}"#);
    if reply.status == 200 {
        return Some(reply.ids().remove(0));
    }
    reply.problem(410, "exhausted");
    None
}

/// Takes IDs with changing counts until there are none to be had here.
fn use_up(client: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    for count in (1..).map(|round| 1 + round * 7 % 20) {
        let reply = client.order(&json!({"type": "tiny", "count": count}).to_string());
        if reply.status != 200 {
            reply.problem(410, "exhausted");
            break;
        }
        ids.extend(reply.ids());
    }
    ids.extend(std::iter::from_fn(|| take_one(client)));
    ids
}

fn assert_exhausted(servers: &[Server]) {
    for server in servers {
        for _ in 0..3 {
            assert_eq!(take_one(server.client()), None);
        }
    }
}

fn each_id_of_a_small_type_comes_once_and_then_none_from_any_instance(deployment: Deployment) {
    let home = Home::on(deployment, Servers::shared())
        .with_config(
            "id_types: [{ name: tiny, random: { alphabet: digits, length: 4, check: luhn } }]",
        )
        .with("MINTAGE__ISSUING__POOL_SIZE_MIN", "16");
    let servers = start_together(&home, 3);
    let seen = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for server in servers.iter().chain(&servers) {
            let client = server.new_client();
            scope.spawn(|| {
                let ids = use_up(&client);
                assert_new(&mut seen.lock().unwrap(), &ids);
                drop(client);
            });
        }
    });
    let mut seen = seen.into_inner().unwrap();
    // What one instance held when the others found nothing comes back to all.
    wait_until("every ID was handed out", || {
        for server in &servers {
            assert_new(&mut seen, &take_one(server.client()));
        }
        seen.len() == 1000
    });
    assert_exhausted(&servers);
    for server in servers {
        server.stop();
    }
    assert_exhausted(&start_together(&home, 3));
}
