//! Instances that are replaced one after the other while clients go on.

use crate::instances::{home, order_serial, start_together};
use crate::load::{Place, assert_all_served, during, some_more};
use crate::support::{Deployment, Ledger};

on_every_cluster!(rolling_restarts_lose_no_request_and_no_number);

fn rolling_restarts_lose_no_request_and_no_number(deployment: Deployment) {
    let home = home(deployment);
    let mut servers = start_together(&home, 3);
    let places = Place::at(&servers);
    let (records, ()) = during(&places, &["order", "card", "event"], |answers| {
        for index in 0..servers.len() {
            some_more(answers, 100);
            places[index].leave();
            servers.remove(index).stop();
            servers.insert(index, home.start());
            places[index].come(&servers[index]);
        }
        some_more(answers, 100);
    });
    let orders = assert_all_served(&records, "order");
    for place in 0..places.len() {
        let of_place = records.iter().filter(|record| record.place == place);
        let last = of_place.max_by_key(|record| record.started).unwrap();
        assert!(last.reply.is_some(), "the new instance was not used: {last:?}");
    }

    let last = orders.iter().map(|id| order_serial(id)).max().unwrap();
    let (ledger, asked_for) = Ledger::settle(servers[0].client(), "order", 1, last);
    assert!(asked_for.iter().all(|id| !orders.contains(id)));
    for id in &orders {
        assert!(ledger.is_issued(order_serial(id)), "{id} is not in the log");
    }
}
