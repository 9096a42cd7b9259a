//! Consumers whose requests go to any instance, and what an outage tells them.

use std::collections::HashSet;

use serde_json::{Value, json};
use test_services::Servers;
use ureq::http::Method;

use crate::instances::{breakable_servers, start_together};
use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Deployment, Home, Reply, wait_until};

const CONFIG: &str = "
public: { types: [bottle], scans_per_minute: 1000, scans_per_minute_of_network: 1000 }
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { name: secret, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

on_every_cluster!(
    a_page_counts_once_whichever_instance_it_goes_to,
    an_outage_tells_nothing_about_codes,
    what_is_void_is_void_everywhere_at_once,
);

fn made(client: &Client) -> String {
    let batch = wait_for(client, &order(client, "bottle", 1), "completed");
    codes(client, &batch, "").remove(0)
}

fn token(client: &Client, path: &str) -> String {
    let page = client.get(path).text;
    page.split("data-token=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

fn a_page_counts_once_whichever_instance_it_goes_to(deployment: Deployment) {
    let home = Home::on(deployment, Servers::shared()).with_config(CONFIG);
    let servers = start_together(&home, 2);
    let path = format!("/v/bottle/{}", made(servers[0].client()));
    let token = json!({"token": token(servers[0].client(), &path)});
    let answers: Vec<Value> =
        [1, 0, 1].map(|at: usize| servers[at].client().post(&path, &token).body).into();
    assert_eq!((&answers[0]["verdict"], &answers[0]["scans"]), (&json!("genuine"), &json!(1)));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

fn an_outage_tells_nothing_about_codes(deployment: Deployment) {
    let broken = breakable_servers();
    let home = Home::on(deployment, &broken)
        .with_config(CONFIG)
        .with("MINTAGE__POSTGRES__TIMEOUT_MILLISECONDS", "500");
    let server = home.start().ready();
    let client = server.client();
    let real = made(client);
    let never_made = client.issue("bottle", 1).remove(0);
    let unknown = [
        format!("/v/bottle/{never_made}"),
        "/v/bottle/x".to_owned(),
        format!("/v/secret/{real}"),
        format!("/v/nothing/{real}"),
    ];
    let ask = |path: &str| {
        let reply = client.call(Method::GET, path, &[("accept", "application/json")], None);
        (reply.status, reply.text)
    };
    assert!(unknown.iter().all(|path| ask(path).0 == 200));
    broken.tell("kill", "postgres");
    wait_until("the outage is noticed", || ask(&unknown[0]).0 == 503);
    let answers: HashSet<_> = unknown.iter().map(|path| ask(path)).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    broken.tell("restart", "postgres");
    wait_until("it works again", || ask(&unknown[0]).0 == 200);
}

fn is(reply: &Reply, verdict: &str) {
    assert_eq!(reply.body["verdict"], verdict, "{}", reply.text);
}

/// Also where there is a replica that has not heard of it yet.
fn what_is_void_is_void_everywhere_at_once(deployment: Deployment) {
    let broken = breakable_servers();
    broken.release_replica();
    let home = Home::on(deployment, &broken).with_config(CONFIG);
    let replica = broken.replica_of(home.database().unwrap());
    let home = home.with("MINTAGE__POSTGRES__REPLICA", &replica);
    let servers = start_together(&home, 2);
    let (here, there) = (servers[0].client(), servers[1].client());
    let batch = wait_for(here, &order(here, "bottle", 4), "completed");
    let made = codes(here, &batch, "");
    wait_until("the replica is asked", || {
        there.get(&format!("/api/v1/codes/bottle/{}", made[0]));
        let metrics = there.get("/metrics").text;
        let reads = |line: &str| line.starts_with("mintage_replica_reads") && !line.ends_with(" 0");
        metrics.lines().any(reads)
    });
    let look = |code: &str| {
        let path = format!("/v/bottle/{code}");
        there.call(Method::GET, &path, &[("accept", "application/json")], None)
    };
    let count = |code: &str, token: &str| {
        there.post(&format!("/v/bottle/{code}"), &json!({"token": token}))
    };
    let scan = |code: &str| there.post("/api/v1/scans", &json!({"type": "bottle", "code": code}));

    let seen = token(there, &format!("/v/bottle/{}", made[0]));
    is(&look(&made[0]), "genuine");
    is(&count(&made[0], &seen), "genuine");
    broken.hold_replica();
    let reason = json!({"reason": "stolen"});
    here.post(&format!("/api/v1/codes/bottle/{}/void", made[0]), &reason);
    is(&look(&made[0]), "void");
    is(&count(&made[0], &seen), "void");
    is(&scan(&made[0]), "void");

    is(&look(&made[1]), "genuine");
    here.post(&format!("/api/v1/batches/{}/recall", batch["id"].as_str().unwrap()), &reason);
    is(&look(&made[1]), "void");
    is(&count(&made[2], &token(there, &format!("/v/bottle/{}", made[2]))), "void");
    is(&scan(&made[3]), "void");
    broken.release_replica();
}
