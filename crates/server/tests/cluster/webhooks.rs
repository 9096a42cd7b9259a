//! Webhooks where the instance that is told of one is not the one that something happens on.

use serde_json::json;
use test_services::Servers;

use crate::instances::start_together;
use crate::support::batches::order;
use crate::support::receiver::Receiver;
use crate::support::{Deployment, Home};

const CONFIG: &str = "
outbound: { private_addresses: true }
id_types:
  - { name: label, random: { alphabet: crockford32, length: 16, check: iso7064, ledger: derived } }
";

on_every_cluster!(a_new_webhook_is_told_of_what_happens_elsewhere);

/// Other instances learn of a webhook some time after it was made. What happens meanwhile must not be
/// forgotten because nobody seems to want to know.
fn a_new_webhook_is_told_of_what_happens_elsewhere(deployment: Deployment) {
    let home = Home::on(deployment, Servers::shared()).with_config(CONFIG);
    let servers = start_together(&home, 2);
    for round in 0..5 {
        let receiver = Receiver::new();
        let path = format!("/api/v1/webhooks/hook-{round}");
        let made = servers[0].client().put(&path, &json!({"url": receiver.url()}));
        assert_eq!(made.status, 201, "{made:?}");
        let batch = order(servers[1].client(), "label", 10);
        assert_eq!(receiver.wait_for(1)[0].body["data"]["id"], batch["id"]);
        assert_eq!(servers[1].client().delete(&path).status, 204);
    }
}
