//! An instance that stands still past its lease, and then goes on as if nothing had happened.

use std::collections::HashSet;

use crate::instances::{home, node, order_serial, start_together};
use crate::load::{Place, assert_no_duplicates, during, some_more};
use crate::support::{Client, Deployment, Ledger, assert_new, wait_until};

on_every_cluster!(an_instance_that_slept_past_its_lease_repeats_nothing_and_corrects_the_log);

/// Takes snowflakes if there are any.
fn take_events(client: &Client, seen: &mut HashSet<String>) -> Option<u64> {
    let reply = client.order(r#"{"type":"event","count":20}"#);
    if reply.status != 200 {
        reply.problem(503, "unavailable");
        assert!(reply.header("retry-after").is_some());
        return None;
    }
    let ids = reply.ids();
    assert_new(seen, &ids);
    Some(node(&ids[0]))
}

fn an_instance_that_slept_past_its_lease_repeats_nothing_and_corrects_the_log(
    deployment: Deployment,
) {
    let home = home(deployment).with("MINTAGE__ISSUING__LOG_FLUSH_MILLISECONDS", "2000");
    let servers = start_together(&home, 3);
    let mut events = HashSet::new();
    let its_node = take_events(servers[0].client(), &mut events).unwrap();
    let places = Place::at(&servers);
    let (records, successor) = during(&places, &["order", "card"], |answers| {
        some_more(answers, 100);
        // What clients have sent it meanwhile may be too old for it afterwards.
        places[0].leave();
        servers[0].pause();
        wait_until("it is taken for gone", || {
            servers[1..].iter().any(|other| other.log().contains("is gone"))
        });
        // Its number goes to whoever comes next.
        let successor = home.start();
        let node = take_events(successor.client(), &mut events);
        assert_eq!(node, Some(its_node), "the lowest node that is free");
        some_more(answers, 100);
        servers[0].resume();
        places[0].come(&servers[0]);
        wait_until("it has a node again", || {
            let node = take_events(servers[0].client(), &mut events);
            assert_ne!(node, Some(its_node), "that belongs to another by now");
            node.is_some()
        });
        some_more(answers, 100);
        successor
    });
    take_events(successor.client(), &mut events).unwrap();
    for record in &records {
        // Only what was under way on the sleeper may have come to nothing.
        let status = record.reply.as_ref().map_or(503, |reply| reply.status);
        if record.place != 0 || status != 503 {
            assert_eq!(status, 200, "{record:?}");
        }
    }

    // What it had handed out and others took for lost is in the log once it has written it.
    let orders = assert_no_duplicates(&records, "order");
    for server in servers {
        server.stop();
    }
    let last = orders.iter().map(|id| order_serial(id)).max().unwrap();
    let (ledger, asked_for) = Ledger::settle(successor.client(), "order", 1, last);
    assert!(asked_for.iter().all(|id| !orders.contains(id)));
    for id in &orders {
        assert!(ledger.is_issued(order_serial(id)), "{id} is not in the log");
    }
}
