//! Batches of tenants on several shards, one of which goes away.

use serde_json::{Value, json};
use test_services::Servers;

use crate::support::batches::wait_for;
use crate::support::{Client, Deployment, Home, wait_until};

const CONFIG: &str = "
id_types:
  - { tenant: HERE, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
  - { tenant: THERE, name: bottle, random: { alphabet: crockford32, length: 16, check: iso7064 } }
";

/// Large enough to be seen while it is written.
const CHUNK: u64 = 1_000_000;

on_every_cluster!(a_shard_that_is_away_does_not_hold_up_the_others,);

fn order(client: &Client, tenant: &str, count: u64) -> Value {
    let body = json!({"tenant": tenant, "type": "bottle", "count": count});
    let reply = client.post("/api/v1/batches", &body);
    assert_eq!(reply.status, 202, "{reply:?}");
    reply.body
}

/// There is one worker, and it is in the middle of a chunk.
fn a_shard_that_is_away_does_not_hold_up_the_others(deployment: Deployment) {
    let servers = Servers::start();
    let shard = servers.database_on_shard();
    let home = Home::on(deployment, &servers)
        .with_config(CONFIG)
        .with("MINTAGE__POSTGRES__SHARDS", &json!([{"url": shard.url()}]).to_string())
        .with("MINTAGE__BATCHES__CHUNK_CODES", &CHUNK.to_string())
        .with("MINTAGE__BATCHES__WORKERS", "1");
    let server = home.start().ready();
    let client = server.client();
    let away = "SELECT tenant FROM placements WHERE shard = 1 AND tenant IN ('HERE', 'THERE')";
    let away = home.database().unwrap().sql(away);
    let here = if away == "THERE" { "HERE" } else { "THERE" };

    let broken = order(client, &away, CHUNK);
    let copies = "SELECT count(*) FROM pg_stat_activity \
                  WHERE state = 'active' AND query LIKE 'COPY codes%'";
    wait_until("it is written", || shard.sql(copies) == "1");
    servers.tell("kill", "shard");
    let small = order(client, here, 10);
    assert_eq!(wait_for(client, &small, "completed")["made"], 10);
    servers.tell("restart", "shard");
    assert_eq!(wait_for(client, &broken, "completed")["made"], CHUNK);
}
