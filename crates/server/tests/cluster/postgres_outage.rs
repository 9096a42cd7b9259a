//! PostgreSQL that does not answer or is gone: a clear refusal in time, and no restart afterwards.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::instances::{CONFIG, breakable_servers, order_serial, start_afresh, start_together};
use crate::load::{Place, Record, assert_no_duplicates, during, some_more};
use crate::support::{Client, Deployment, Home, Ledger, Server, assert_new, wait_until};

on_every_cluster!(without_postgres_orders_are_refused_in_time_and_work_again_with_it);

/// The limit that the instances are given, and how long a refusal may take on a busy machine.
const LIMIT_MS: &str = "1000";
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

fn without_postgres_orders_are_refused_in_time_and_work_again_with_it(deployment: Deployment) {
    let broken = breakable_servers();
    let home = Home::on(deployment, &broken)
        .with_config(CONFIG)
        .with("MINTAGE__POSTGRES__TIMEOUT_MILLISECONDS", LIMIT_MS)
        .with("MINTAGE__ISSUING__WAIT_MILLISECONDS_MAX", LIMIT_MS);
    let servers: Vec<Server> = start_together(&home, 2).into_iter().map(Server::ready).collect();
    let places = Place::at(&servers);
    let mut seen = HashSet::new();
    for (harm, mend) in [("pause", "resume"), ("kill", "restart")] {
        let (records, ()) = during(&places, &["order", "card", "event"], |answers| {
            some_more(answers, 50);
            broken.tell(harm, "postgres");
            for server in &servers {
                wait_until("the instance is not ready", || {
                    server.client().get("/readyz").status == 503
                });
                assert_eq!(server.client().get("/livez").status, 200);
                assert_refused(server.client());
            }
            broken.tell(mend, "postgres");
            for server in &servers {
                wait_until("it is ready again", || server.client().get("/readyz").status == 200);
            }
            some_more(answers, 50);
        });
        assert_answers(&records);
        let orders = assert_no_duplicates(&records, "order");
        assert_new(&mut seen, &orders);
        for server in &servers {
            let start = Instant::now();
            for _ in 0..50 {
                assert_eq!(server.client().issue("card", 1).len(), 1);
            }
            assert!(start.elapsed() < Duration::from_secs(2), "{harm}: {:?}", start.elapsed());
        }
    }
    // A draw whose answer was lost is with its instance until that ends.
    let server = start_afresh(&home, servers);
    let last = seen.iter().map(|id| order_serial(id)).max().unwrap();
    let (ledger, asked_for) = Ledger::settle(server.client(), "order", 1, last);
    assert_new(&mut seen.clone(), &asked_for);
    for id in &seen {
        assert!(ledger.is_issued(order_serial(id)), "{id} is not in the log");
    }
}

/// The pool of a random type is a table, so there is nothing to be had without it.
fn assert_refused(client: &Client) {
    let start = Instant::now();
    wait_until("orders are refused", || {
        let reply = client.order(r#"{"type":"card","count":20}"#);
        reply.status == 503 && reply.header("retry-after").is_some()
    });
    assert!(start.elapsed() < 2 * REFUSED_WITHIN);
}

/// Every answer is IDs, or a refusal that comes in time and says when to try again.
fn assert_answers(records: &[Record]) {
    for record in records {
        let reply = record.reply.as_ref().unwrap();
        if reply.status != 200 {
            let code = reply.body["code"].as_str().unwrap_or_default();
            assert!(matches!(code, "unavailable" | "pool_empty"), "{record:?}");
            reply.problem(503, code);
            assert!(reply.header("retry-after").is_some(), "{record:?}");
        }
        assert!(record.took < REFUSED_WITHIN, "{record:?}");
    }
    let refused = records.iter().filter(|record| record.reply.as_ref().unwrap().status == 503);
    assert!(refused.count() > 0, "nobody noticed the outage");
}
