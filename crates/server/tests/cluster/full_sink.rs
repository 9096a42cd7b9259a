//! A directory of documents on a disk that is full. The database is elsewhere, and goes on.

use std::fs;

use serde_json::json;

use crate::support::disk::{IGNORE_THE_SIGNAL, limit_files};
use crate::support::sinks::{
    CONFIG, assign, directory, document, gaps, root, wait_for_files, wait_for_state,
    with_sinks_nearby,
};
use crate::support::{Deployment, Home, wait_until};

#[test]
fn documents_wait_until_there_is_room() {
    let home = Home::on(Deployment::Postgres, test_services::Servers::shared());
    let home = with_sinks_nearby(home.with_config(CONFIG)).with_prelude(IGNORE_THE_SIGNAL);
    let server = home.start();
    let client = server.client();
    directory(client, "archive", &json!({}));
    limit_files(&server, "4096");
    let payload = json!({"text": "x".repeat(10_000)});
    let id = assign(client, "order", &payload);
    wait_until("the failure is on record", || document(client, &id)["last_error"].is_string());
    assert_eq!(document(client, &id)["state"], "PENDING");
    let place = root(&home).join("default/archive/order");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing is left of what did not fit");
    limit_files(&server, "unlimited");
    wait_for_state(client, &id, "COMMITTED");
    assert_eq!(wait_for_files(&place, 1)[&id], payload);
    assert!(gaps(client, "order").is_empty());
}
