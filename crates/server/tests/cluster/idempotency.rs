//! `Idempotency-Key` across instances.

use std::thread;

use ureq::http::Method;

use crate::instances::{TableLock, home, start_together};
use crate::support::{Client, Deployment, Reply, wait_until};

on_every_cluster!(
    the_same_key_gives_the_same_answer_on_every_instance,
    the_key_of_a_killed_instance_is_free_again_after_its_lease,
);

const BODY: &str = r#"{"type":"card","count":3}"#;

fn order(client: &Client, key: &str) -> Result<Reply, ureq::Error> {
    let headers = [("idempotency-key", key)];
    client.try_call(Method::POST, "/api/v1/ids", &headers, Some(BODY.as_bytes()))
}

fn the_same_key_gives_the_same_answer_on_every_instance(deployment: Deployment) {
    let home = home(deployment);
    let servers = start_together(&home, 3);
    for round in 0..5 {
        let key = format!("round-{round}");
        let replies: Vec<Reply> = thread::scope(|scope| {
            let calls: Vec<_> = servers
                .iter()
                .map(|server| (server.client(), &key))
                .map(|(client, key)| scope.spawn(move || order(client, key).unwrap()))
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let answer = order(servers[round % 3].client(), &key).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        for reply in replies {
            if reply.status == 200 {
                assert_eq!(reply.text, answer.text, "two answers to one order");
            } else {
                reply.problem(409, "request_in_flight");
            }
        }
        for server in &servers {
            let again = order(server.client(), &key).unwrap();
            assert_eq!((again.status, &again.text), (200, &answer.text));
        }
    }
}

fn the_key_of_a_killed_instance_is_free_again_after_its_lease(deployment: Deployment) {
    let home = home(deployment);
    let servers = start_together(&home, 2);
    let servers = servers.into_iter().map(crate::support::Server::ready).collect::<Vec<_>>();
    let database = home.database().unwrap();
    // The order is held up once its key is claimed.
    let lock = TableLock::take(database, "id_pool_card");
    thread::scope(|scope| {
        let client = servers[0].new_client();
        scope.spawn(move || assert!(order(&client, "k").is_err(), "the server is killed"));
        wait_until("the key is claimed", || database.sql("SELECT count(*) FROM answers") == "1");
        servers[0].kill_now();
    });
    drop(lock);
    let mut refused = 0;
    wait_until("the key is free again", || {
        let reply = order(servers[1].client(), "k").unwrap();
        if reply.status != 200 {
            reply.problem(409, "request_in_flight");
            refused += 1;
        }
        reply.status == 200
    });
    assert!(refused > 0, "until then the order may be under way");
}
