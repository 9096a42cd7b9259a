//! A deployment of OpenG2P's ID generator whose database is taken over.

use std::collections::HashSet;

use test_services::{Database, Servers};
use ureq::http::Method;

use crate::support::{Client, Deployment, Home, assert_new};

on_every_cluster!(the_table_of_an_openg2p_deployment_is_adopted);

const CONFIG: &str = "
id_generator:
  pool_min_threshold: 50
  pool_generation_batch_size: 100
  id_types: { farmer: { id_length: 5 } }
";

/// OpenG2P's own statements.
const TABLE: &str = "
CREATE TABLE id_pool_farmer (
    id_value   VARCHAR(32) PRIMARY KEY,
    status     VARCHAR(16) NOT NULL DEFAULT 'AVAILABLE',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    issued_at  TIMESTAMPTZ NULL
);
CREATE INDEX idx_farmer_available ON id_pool_farmer (status) WHERE status = 'AVAILABLE';";

/// Every ID that the type has, from a server of its own.
fn all_ids() -> Vec<String> {
    let home = Home::embedded().with_config(CONFIG);
    let server = home.start();
    std::iter::from_fn(|| take(server.client())).collect()
}

fn take(client: &Client) -> Option<String> {
    let reply = client.call(Method::POST, "/v1/idgenerator/farmer/id", &[], Some(b""));
    if reply.status == 410 {
        return None;
    }
    let id = reply.body["response"]["id"].as_str().unwrap_or_else(|| panic!("{reply:?}"));
    Some(id.to_owned())
}

fn insert(database: &Database, ids: &[String], status: &str, issued_at: &str) {
    let rows: Vec<String> =
        ids.iter().map(|id| format!("('{id}', '{status}', {issued_at})")).collect();
    let rows = rows.join(", ");
    database
        .sql(&format!("INSERT INTO id_pool_farmer (id_value, status, issued_at) VALUES {rows}"));
}

/// The variables that OpenG2P's chart sets.
fn openg2p_variables(home: Home) -> Home {
    let url = home.database().unwrap().url();
    let (user, place) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (user, password) = user.split_once(':').unwrap();
    let (server, name) = place.split_once('/').unwrap();
    let (host, port) = server.split_once(':').unwrap();
    home.without("MINTAGE__POSTGRES__URL")
        .with("DB_HOST", host)
        .with("DB_PORT", port)
        .with("DB_NAME", name)
        .with("DB_USER", user)
        .with("DB_PASSWORD", password)
}

fn the_table_of_an_openg2p_deployment_is_adopted(deployment: Deployment) {
    let all = all_ids();
    let (taken, available) = (&all[..200], &all[200..500]);
    let home = Home::on(deployment, Servers::shared()).with_config(CONFIG);
    let database = home.database().unwrap();
    database.sql(TABLE);
    insert(database, taken, "TAKEN", "now()");
    insert(database, available, "AVAILABLE", "NULL");
    let home = openg2p_variables(home);
    let first = home.start();

    // What waited in the table comes first, up to the few that are taken ahead and mixed with new
    // ones. What is taken there never comes.
    let mut seen: HashSet<String> = taken.iter().cloned().collect();
    for _ in 0..200 {
        let id = take(first.client()).expect("there are many");
        assert!(available.contains(&id), "{id} was not in the table");
        assert_new(&mut seen, [&id]);
    }
    let servers = [home.start(), first];
    for server in &servers {
        assert_new(&mut seen, &std::iter::from_fn(|| take(server.client())).collect::<Vec<_>>());
    }
    // The other one may have held a few when the first one found no more.
    crate::support::wait_until("every ID was handed out", || {
        for server in &servers {
            assert_new(&mut seen, &take(server.client()));
        }
        seen.len() == all.len()
    });
    let database = home.database().unwrap();
    let rows = database.sql("SELECT status, count(*) FROM id_pool_farmer GROUP BY status");
    assert_eq!(rows, format!("TAKEN|{}", all.len()), "the table knows all of it");
}
