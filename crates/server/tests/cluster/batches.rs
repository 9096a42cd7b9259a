//! Batches that several instances work on, and chunks that fail for real.

use std::collections::HashSet;

use serde_json::{Value, json};
use test_services::Servers;

use crate::instances::start_together;
use crate::support::batches::{codes, order, wait_for};
use crate::support::{Deployment, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

on_every_cluster!(
    instances_share_a_batch_and_one_may_die,
    what_fails_is_a_dead_letter_that_can_be_retried,
    what_fails_can_be_abandoned,
    thousands_of_dead_letters_are_retried_with_one_request,
);

fn home(deployment: Deployment) -> Home {
    Home::on(deployment, Servers::shared())
        .with_config(CONFIG)
        .with("MINTAGE__BATCHES__CHUNK_CODES", "1000")
        .with("MINTAGE__BATCHES__RETRIES", "2")
        .with("MINTAGE__BATCHES__RETRY_MILLISECONDS", "5")
}

fn instances_share_a_batch_and_one_may_die(deployment: Deployment) {
    const CODES: u64 = 300_000;
    let home = home(deployment);
    let mut servers = start_together(&home, 3);
    let batch = order(servers[0].client(), "bottle", CODES);
    let claimed = "SELECT count(DISTINCT worker) FROM chunks WHERE state IN ('running', 'done')";
    wait_until("all of them work on it", || home.database().unwrap().sql(claimed).trim() == "3");
    servers.remove(0).kill_now();
    let done = wait_for(servers[0].client(), &batch, "completed");
    assert_eq!((&done["made"], &done["abandoned"]), (&json!(CODES), &json!(0)));
    let all = codes(servers[1].client(), &batch, "");
    assert_eq!(all.iter().collect::<HashSet<_>>().len() as u64, CODES);
    for code in all.iter().step_by(29_999) {
        let body = json!({"type": "bottle", "code": code});
        for (server, verdict) in servers.iter().zip(["genuine", "repeated"]) {
            let scan = server.client().post("/api/v1/scans", &body).body;
            assert_eq!(scan["verdict"], verdict, "{scan}");
        }
    }
}

/// Puts something that cannot be written to in the place of the table that the codes go to.
fn break_table(home: &Home) -> String {
    let database = home.database().unwrap();
    let id = database.sql("SELECT id FROM id_types WHERE name = 'bottle'");
    let table = format!("codes_{}_0", id.trim());
    database.sql(&format!("CREATE VIEW {table} AS SELECT 1 AS serial, 2 AS id"));
    format!("DROP VIEW {table}")
}

fn what_fails_is_a_dead_letter_that_can_be_retried(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start();
    let client = server.client();
    let mend = break_table(&home);
    let batch = order(client, "bottle", 2500);
    let id = batch["id"].as_str().unwrap();
    wait_for(client, &batch, "needs_attention");
    let dead = format!("/api/v1/dead-letters?batch={id}");
    wait_until("every chunk is a dead letter", || {
        client.get(&dead).body["dead_letters"].as_array().unwrap().len() == 3
    });
    let letters = client.get(&dead).body;
    assert_eq!(
        (&letters["dead_letters"][0]["attempts"], &letters["next"]),
        (&json!(3), &Value::Null)
    );
    // What PostgreSQL says is for those who run the server, and not for those who order codes.
    let told = "the store did not take the codes; the server's log says why";
    assert_eq!(letters["dead_letters"][0]["error"], told, "{letters}");
    assert!(server.log().contains("cannot copy to view"), "{}", server.log());
    let shown = client.get(&format!("/api/v1/batches/{id}")).body;
    assert_eq!((&shown["dead_letters"], &shown["made"]), (&json!(3), &json!(0)));
    assert_eq!(shown["error"], told);
    client.get(&format!("/api/v1/batches/{id}/codes")).problem(409, "batch_not_ready");

    home.database().unwrap().sql(&mend);
    let retry = client.post("/api/v1/dead-letters/retry", &json!({"batch": id, "chunk": 1}));
    assert_eq!(retry.body, json!({"settled": 1}));
    let retry = client.post("/api/v1/dead-letters/retry", &json!({"batch": id}));
    assert_eq!(retry.body, json!({"settled": 2}));
    assert_eq!(wait_for(client, &batch, "completed")["made"], 2500);
    assert_eq!(codes(client, &batch, "").len(), 2500);
    assert_eq!(client.get("/api/v1/dead-letters").body["dead_letters"], json!([]));
}

fn thousands_of_dead_letters_are_retried_with_one_request(deployment: Deployment) {
    let home = home(deployment)
        .with("MINTAGE__BATCHES__CHUNK_CODES", "100")
        .with("MINTAGE__BATCHES__RETRIES", "0");
    let server = home.start();
    let client = server.client();
    let mend = break_table(&home);
    let batch = order(client, "bottle", 120_000);
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap());
    wait_until("every chunk is a dead letter", || client.get(&path).body["dead_letters"] == 1200);
    home.database().unwrap().sql(&mend);
    let body = json!({"batch": batch["id"], "reason": "the table is mended"});
    let retry = client.post("/api/v1/dead-letters/retry", &body);
    assert_eq!(retry.body, json!({"settled": 1200}), "{retry:?}");
    assert_eq!(wait_for(client, &batch, "completed")["made"], 120_000);
}

fn what_fails_can_be_abandoned(deployment: Deployment) {
    let home = home(deployment);
    let server = home.start();
    let client = server.client();
    let mend = break_table(&home);
    let batch = order(client, "bottle", 1500);
    let id = batch["id"].as_str().unwrap();
    wait_until("every chunk is a dead letter", || {
        client.get(&format!("/api/v1/batches/{id}")).body["dead_letters"] == 2
    });
    let body = json!({"batch": id, "chunk": 0, "reason": "not needed"});
    let abandon = client.post("/api/v1/dead-letters/abandon", &body);
    assert_eq!(abandon.body, json!({"settled": 1}));
    let log = client.get(&format!("/api/v1/audit?action=chunk.abandoned&subject={id}")).body;
    let detail = json!({"chunk": 0, "reason": "not needed"});
    assert_eq!(log["deeds"][0]["detail"], detail, "{log}");
    home.database().unwrap().sql(&mend);
    client.post("/api/v1/dead-letters/retry", &json!({}));
    let done = wait_for(client, &batch, "completed");
    assert_eq!((&done["made"], &done["abandoned"]), (&json!(500), &json!(1000)));
    assert_eq!(codes(client, &batch, "").len(), 500);
    let serial = done["first_serial"].as_str().unwrap();
    let history = client.history("bottle", &format!("serial={serial}"));
    assert_eq!(history["gaps"][0]["reason"], "abandoned", "{history}");
}
