//! Deliveries on a real server: that nobody waits for anybody in a circle, and that none gets lost
//! between the tables that say where each stands.

mod support;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use storage::{Attempt, Delivery, Next, OutboxStore, Outcome, ReceiverId, TypeStore, Wanted};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const RECEIVER: ReceiverId = ReceiverId(5);

/// More than are given up in one transaction.
const DELIVERIES: i64 = 25_000;

/// Some have arrived, some are tried again at once, and some are dead.
fn outcome(delivery: &Delivery) -> Outcome {
    let (next, error) = match delivery.id.number() % 3 {
        0 => (Next::Delivered, None),
        1 => (Next::Retry(NOW), Some("no room".to_owned())),
        _ => (Next::Dead, Some("gone".to_owned())),
    };
    let attempt = Attempt {
        number: delivery.attempt,
        at: NOW,
        duration: Duration::from_millis(3),
        status: None,
        error,
    };
    Outcome { delivery: delivery.id, token: delivery.token, attempt, next }
}

/// Claims and settles until nothing is pending. The later half is settled first.
async fn deliver(store: Arc<PostgresStore>) -> usize {
    let wanted =
        [Wanted { receiver: RECEIVER, tenant: "acme".to_owned(), limit: 200, ordered: false }];
    // What is claimed is due again at once, so that claims end in the middle of everything.
    let mut settled = 0;
    loop {
        let claimed = store.claim_deliveries(&wanted, NOW, NOW).await.unwrap();
        if claimed.is_empty() {
            return settled;
        }
        let mut outcomes: Vec<Outcome> = claimed.iter().map(outcome).collect();
        outcomes.rotate_left(claimed.len() / 2);
        let counted = store.settle_deliveries(&outcomes, NOW).await.unwrap();
        settled += counted.into_iter().filter(|counted| *counted).count();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_given_up_while_others_claim_and_settle() {
    let databases = Databases::create(1).await;
    let settings =
        PostgresSettings { step_timeout: Duration::from_secs(20), ..databases.settings() };
    let store = PostgresStore::open(settings).await.unwrap();
    let id_type = serde_json::from_str(r#"{"tenant": "acme", "name": "code", "sequence": {}}"#);
    store.create_type(&id_type.unwrap(), b"", NOW).await.unwrap();
    let client = databases.connect().await;
    let put = format!(
        "SELECT put_deliveries('acme', array_agg({}::bigint), array_agg(number::text),
                               array_agg('test'::text), array_agg('body'::text), '2020-01-01')
         FROM generate_series(1, {DELIVERIES}) AS number",
        RECEIVER.0
    );
    client.batch_execute(&put).await.unwrap();
    let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(deliver(Arc::clone(&store)))).collect();
    let looked = "SELECT count(*) FROM settled_deliveries";
    // In the middle of it.
    while client.query_one(looked, &[]).await.unwrap().get::<_, i64>(0) < 1000 {}
    let abandoned = store.abandon_deliveries("acme", RECEIVER, NOW).await.unwrap();
    let mut settled = 0;
    for task in tasks {
        settled += task.await.unwrap();
    }
    assert!(settled >= 1000 && abandoned >= 1, "{settled} {abandoned}");
    let sql = "SELECT count(*), count(pending.number), count(settled.number),
                      count(*) FILTER (WHERE state = 'abandoned')
               FROM deliveries LEFT JOIN pending_deliveries AS pending USING (number)
               LEFT JOIN settled_deliveries AS settled USING (number)";
    let row = client.query_one(sql, &[]).await.unwrap();
    let counts: [i64; 4] = [0, 1, 2, 3].map(|column| row.get(column));
    assert_eq!(counts, [DELIVERIES, 0, DELIVERIES, i64::try_from(abandoned).unwrap()]);
    assert_eq!(databases.deadlocks().await, 0);
}
