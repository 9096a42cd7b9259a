//! Documents that have to arrive in order, put on record by several instances at once.

mod support;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use storage::{
    Assigned, Attempt, Confirmed, CounterStore, Delivery, DocumentOrder, DocumentStore, Draw,
    NewDocument, Next, Numbers, OutboxStore, Outcome, ReceiverId, ReservationOrder, TypeId,
    TypeStore, Wanted,
};
use storage_postgres::PostgresStore;
use support::Databases;
use tokio_postgres::Client;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const SINK: ReceiverId = ReceiverId(5);

fn document(reference: Option<&str>) -> NewDocument {
    let (payload, reference) = ("{}".to_owned(), reference.map(ToOwned::to_owned));
    NewDocument { payload, reference, request_key: None, key_id: 0 }
}

async fn draw(store: &PostgresStore, type_id: TypeId, holder: &str) -> (u64, String) {
    let (period, bounds, revision, now) = ("", (0, 1 << 40), 0, NOW);
    let draw = Draw { type_id, period, count: 1, bounds, holder, revision, now };
    let serial = store.draw(draw).await.unwrap().start;
    (serial, serial.to_string())
}

/// Gives a document a number that it draws for itself.
async fn assign(
    store: Arc<PostgresStore>,
    type_id: TypeId,
    holder: &'static str,
    reference: Option<&'static str>,
) -> Delivery {
    let ids = vec![draw(&store, type_id, holder).await];
    let order = Arc::new(DocumentOrder {
        type_id,
        revision: 0,
        period: String::new(),
        numbers: Numbers::Drawn { holder: holder.to_owned(), ids },
        sink: SINK,
        in_order: true,
        requests: vec![vec![document(reference)]],
        claimed_until: None,
        now: NOW,
    });
    match store.assign_documents(&order).await.unwrap().remove(0).remove(0) {
        Assigned::New(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

/// Confirms a number that it holds for itself.
async fn confirm(store: Arc<PostgresStore>, type_id: TypeId, holder: &'static str) -> Delivery {
    let order = ReservationOrder {
        type_id,
        revision: 0,
        period: String::new(),
        holder: holder.to_owned(),
        id: draw(&store, type_id, holder).await,
        key_id: 0,
        expires_at: NOW + Duration::from_secs(600),
        now: NOW,
    };
    let held = store.reserve(&order).await.unwrap();
    let confirmed = store.confirm_reservation(held.id, &document(None), SINK, true, NOW).await;
    match confirmed.unwrap() {
        Confirmed::Done(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

async fn claim(store: &PostgresStore) -> Vec<Delivery> {
    let (tenant, limit, ordered) = ("acme".to_owned(), 10, true);
    let wanted = [Wanted { receiver: SINK, tenant, limit, ordered }];
    store.claim_deliveries(&wanted, NOW, NOW + Duration::from_secs(60)).await.unwrap()
}

/// How many sessions wait for a lock of a kind.
async fn waiting(client: &Client, kind: &str) -> i64 {
    let sql = "SELECT count(*) FROM pg_locks
               WHERE NOT granted AND locktype = $1
                 AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
    client.query_one(sql, &[&kind]).await.unwrap().get(0)
}

/// One instance has taken a number and cannot commit. What others put on record meanwhile follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_seen_before_what_it_follows() {
    let databases = Databases::create(1).await;
    let open = async || PostgresStore::open(databases.settings()).await.unwrap();
    let (one, two) = (open().await, open().await);
    let id_type = serde_json::from_str(r#"{"tenant": "acme", "name": "invoice", "sequence": {}}"#);
    let type_id = one.create_type(&id_type.unwrap(), b"", NOW).await.unwrap().id;
    // From now on the sink is known, so that nobody waits for that.
    assign(Arc::clone(&one), type_id, "one", None).await;
    let first = claim(&one).await.remove(0);
    let (number, duration) = (1, Duration::ZERO);
    let attempt = Attempt { number, at: NOW, duration, status: None, error: None };
    let (delivery, token, next) = (first.id, first.token, Next::Delivered);
    let outcome = Outcome { delivery, token, attempt, next };
    assert_eq!(one.settle_deliveries(&[outcome], NOW).await.unwrap(), [true]);

    let (blocker, watcher) = (databases.connect().await, databases.connect().await);
    let same_reference = format!(
        "BEGIN; INSERT INTO deliveries (receiver, key, subject, body, created_at, type_id, period,
             serial, reference, key_id)
         VALUES (9, 'x', 'x', 'x', now(), {}, 'other', 0, 'held up', 0)",
        type_id.0
    );
    blocker.batch_execute(&same_reference).await.unwrap();
    let held_up = tokio::spawn(assign(Arc::clone(&one), type_id, "one", Some("held up")));
    while waiting(&watcher, "transactionid").await == 0 {
        assert!(!held_up.is_finished());
    }
    let assigned = tokio::spawn(assign(Arc::clone(&two), type_id, "two", None));
    let confirmed = tokio::spawn(confirm(Arc::clone(&two), type_id, "three"));
    while waiting(&watcher, "advisory").await < 2
        && !assigned.is_finished()
        && !confirmed.is_finished()
    {}
    assert_eq!(claim(&two).await, [], "what they follow is not there yet");
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let first = held_up.await.unwrap().id;
    let others = [assigned.await.unwrap().id, confirmed.await.unwrap().id];
    let claimed: Vec<_> = claim(&two).await.into_iter().map(|delivery| delivery.id).collect();
    assert_eq!((claimed.len(), claimed[0]), (3, first));
    assert!(others.iter().all(|id| *id > first));
}

/// Some set out together before the order counted, and just now somebody settles a part of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_those_on_their_way_is_not_claimed_while_some_of_them_arrive() {
    let databases = Databases::create(1).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let id_type = serde_json::from_str(r#"{"tenant": "acme", "name": "invoice", "sequence": {}}"#);
    let type_id = store.create_type(&id_type.unwrap(), b"", NOW).await.unwrap().id;
    let later = assign(Arc::clone(&store), type_id, "one", None).await.id.number();
    let client = databases.connect().await;
    let set_out = format!(
        "INSERT INTO consignments VALUES ({0} - 9, {0}, {1}, {2}, to_timestamp({3} + 60))",
        later,
        SINK.0,
        type_id.0,
        NOW.as_second()
    );
    client.batch_execute(&set_out).await.unwrap();
    let in_part = "
        BEGIN; WITH taken AS (DELETE FROM consignments RETURNING *)
        INSERT INTO consignments SELECT start + 4, stop, receiver, type_id, due_at FROM taken";
    client.batch_execute(in_part).await.unwrap();
    assert_eq!(claim(&store).await, []);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(claim(&store).await, []);
    client
        .batch_execute("DELETE FROM pending_deliveries WHERE token = 0 AND attempts = 1")
        .await
        .unwrap();
    assert_eq!(claim(&store).await.len(), 1);
}
