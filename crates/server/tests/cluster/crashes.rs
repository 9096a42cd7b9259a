//! Instances that are killed while clients go on.

use crate::instances::{home, node, order_serial, start_together, wait_until_gone};
use crate::load::{Place, assert_all_served, during, some_more};
use crate::support::{Deployment, Ledger};

on_every_cluster!(
    what_a_killed_instance_held_becomes_gaps_and_all_else_is_accounted_for,
    the_node_of_a_killed_instance_is_given_to_another,
);

fn what_a_killed_instance_held_becomes_gaps_and_all_else_is_accounted_for(deployment: Deployment) {
    // What is not written yet when an instance is killed is lost to the log.
    let home = home(deployment).with("MINTAGE__ISSUING__LOG_FLUSH_MILLISECONDS", "2000");
    let mut servers = start_together(&home, 3);
    let places = Place::at(&servers);
    let (records, ()) = during(&places, &["order", "card", "event"], |answers| {
        for round in 0..2 {
            some_more(answers, 200);
            places[2].leave();
            servers.remove(2).kill();
            if round == 0 {
                servers.push(home.start());
                places[2].come(&servers[2]);
            }
        }
    });
    let orders = assert_all_served(&records, "order");
    let last = orders.iter().map(|id| order_serial(id)).max().unwrap();
    let (ledger, asked_for) = Ledger::settle(servers[0].client(), "order", 1, last);
    assert!(asked_for.iter().all(|id| !orders.contains(id)));
    assert!(!ledger.gaps.is_empty(), "what was not logged is a gap");
    let killed = records.iter().filter(|record| record.place == 2 && record.id_type == "order");
    let of_the_killed: Vec<String> = killed
        .filter_map(|record| record.reply.as_ref())
        .flat_map(crate::support::Reply::ids)
        .collect();
    for id in &orders {
        let of_the_killed = of_the_killed.contains(id);
        assert!(of_the_killed || ledger.is_issued(order_serial(id)), "{id} is not in the log");
    }
}

fn the_node_of_a_killed_instance_is_given_to_another(deployment: Deployment) {
    let home = home(deployment);
    let witness = home.start();
    let mut nodes = Vec::new();
    for round in 1..=4 {
        let server = home.start();
        nodes.push(node(&server.client().issue("event", 1)[0]));
        server.kill();
        wait_until_gone(&witness, round);
    }
    assert_eq!(nodes, [1, 1, 1, 1]);
    assert_eq!(node(&witness.client().issue("event", 1)[0]), 0);
}
