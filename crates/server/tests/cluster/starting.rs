//! Instances that come up at the same moment.

use std::collections::HashSet;
use std::thread;

use crate::instances::{home, node, start_together};
use crate::support::{Client, Deployment, Server, assert_new};

on_every_cluster!(three_instances_at_once_on_an_empty_database_come_up_and_repeat_nothing);

fn three_instances_at_once_on_an_empty_database_come_up_and_repeat_nothing(deployment: Deployment) {
    for _ in 0..10 {
        let home = home(deployment);
        let servers = start_together(&home, 3);
        let given: Vec<Vec<String>> = thread::scope(|scope| {
            let clients: Vec<_> = servers
                .iter()
                .map(Server::client)
                .map(|client| scope.spawn(move || issue_of_each_kind(client)))
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let mut seen = HashSet::new();
        for ids in &given {
            assert_new(&mut seen, ids);
        }
        assert_eq!(seen.len(), 3 * 553);
        let nodes: HashSet<u64> =
            servers.iter().map(|server| node(&server.client().issue("event", 1)[0])).collect();
        assert_eq!(nodes, HashSet::from([0, 1, 2]));
    }
}

fn issue_of_each_kind(client: &Client) -> Vec<String> {
    let orders = [("order", 3), ("card", 300), ("event", 50), ("order", 200)];
    orders.map(|(id_type, count)| client.issue(id_type, count)).concat()
}
