//! Consumers whose requests go to any instance, and what an outage tells them.

use std::collections::HashSet;

use serde_json::{Value, json};
use test_services::Servers;
use ureq::http::Method;

use crate::instances::{breakable_servers, start_together};
use crate::support::batches::{codes, order, wait_for};
use crate::support::{Client, Deployment, Home, wait_until};

const CONFIG: &str = "
public: { types: [bottle], scans_per_minute: 1000, scans_per_minute_of_network: 1000 }
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { name: secret, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

on_every_cluster!(
    a_page_counts_once_whichever_instance_it_goes_to,
    an_outage_tells_nothing_about_codes
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
