//! Documents on a real server: that nobody waits for anybody in a circle, that every number is in one
//! place, and that looking for lost ones is quick.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use storage::{
    Assigned, Attempt, CounterStore, Delivery, DocumentOrder, DocumentStore, Draw, GapReason,
    IssueStore, NewDocument, Next, Numbers, OutboxStore, Outcome, ReceiverId, Render, StoreError,
    TypeId, TypeStore, Verdict, Wanted,
};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;
use tokio::sync::watch;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const SINK: ReceiverId = ReceiverId(5);
const BOUNDS: (u64, u64) = (0, 1 << 40);

/// Documents of one call, each in a request of its own.
const GROUP: u64 = 20;
const GROUPS: u64 = 40;

async fn open(databases: &Databases) -> Arc<PostgresStore> {
    let settings =
        PostgresSettings { step_timeout: Duration::from_secs(20), ..databases.settings() };
    PostgresStore::open(settings).await.unwrap()
}

async fn new_type(store: &PostgresStore) -> TypeId {
    let id_type = serde_json::from_str(r#"{"tenant": "acme", "name": "invoice", "sequence": {}}"#);
    store.create_type(&id_type.unwrap(), b"", NOW).await.unwrap().id
}

/// Every other document comes to several instances, which do not have them in the same order.
fn requests(instance: u64, group: u64) -> Vec<Vec<NewDocument>> {
    let document = |number: u64| {
        let number =
            group * GROUP + if instance.is_multiple_of(2) { number } else { GROUP - 1 - number };
        let reference = match number % 2 {
            0 => format!("{number}"),
            _ => format!("{instance} {number}"),
        };
        NewDocument {
            payload: format!("{{\"number\": {number}}}"),
            reference: Some(reference),
            request_key: None,
            key_id: 1,
        }
    };
    (0..GROUP).map(|number| vec![document(number)]).collect()
}

/// Assigns all documents of an instance. Returns how many were new.
async fn assign(store: Arc<PostgresStore>, type_id: TypeId, instance: u64) -> u64 {
    let holder = format!("instance {instance}");
    let (mut held, mut new): (Vec<(u64, String)>, u64) = (Vec::new(), 0);
    for group in 0..GROUPS {
        if held.len() < usize::try_from(GROUP).unwrap() {
            let (period, revision) = ("", 0);
            let draw = Draw {
                type_id,
                period,
                count: 3 * GROUP,
                bounds: BOUNDS,
                holder: &holder,
                revision,
                now: NOW,
            };
            let drawn = store.draw(draw).await.unwrap();
            held.extend(drawn.map(|serial| (serial, serial.to_string())));
        }
        let order = Arc::new(DocumentOrder {
            type_id,
            revision: 0,
            period: String::new(),
            numbers: Numbers::Drawn { holder: holder.clone(), ids: held.clone() },
            sink: SINK,
            in_order: instance == 3,
            requests: requests(instance, group),
            claimed_until: (instance < 2).then_some(NOW),
            now: NOW,
        });
        let assigned = store.assign_documents(&order).await.unwrap();
        let its_own = assigned.iter().flatten().filter_map(|assigned| match assigned {
            Assigned::New(delivery) => Some(delivery),
            _ => None,
        });
        let its_own: Vec<_> = its_own.collect();
        held.drain(..its_own.len());
        new += its_own.len() as u64;
        if order.claimed_until.is_some() {
            settle_some(&store, group, &its_own).await;
        }
    }
    new
}

/// What an instance that delivers as it assigns says of some of them, while others take them for lost: the
/// claims are over at once.
async fn settle_some(store: &PostgresStore, group: u64, claimed: &[&Delivery]) {
    let outcomes: Vec<Outcome> = (group..)
        .zip(claimed)
        .filter_map(|(place, delivery)| {
            let (next, error) = match place % 20 {
                0 => (Next::Retry(NOW), Some("no room".to_owned())),
                1..10 => (Next::Delivered, None),
                _ => return None,
            };
            let (number, duration) = (delivery.attempt, Duration::from_millis(3));
            let attempt = Attempt { number, at: NOW, duration, status: None, error };
            Some(Outcome { delivery: delivery.id, token: delivery.token, attempt, next })
        })
        .collect();
    store.settle_deliveries(&outcomes, NOW).await.unwrap();
}

/// Claims and settles until so many have arrived or died. Some are decided about at the same time.
async fn deliver(store: Arc<PostgresStore>, ordered: bool, mut stop: watch::Receiver<bool>) {
    let wanted = [Wanted { receiver: SINK, tenant: "acme".to_owned(), limit: 50, ordered }];
    loop {
        // Whatever was put on record before the stop is seen by the claim that follows.
        let stopped = *stop.borrow();
        let claimed = store.claim_deliveries(&wanted, NOW, NOW).await.unwrap();
        if claimed.is_empty() {
            if stopped {
                return;
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
            continue;
        }
        let outcomes: Vec<Outcome> = claimed
            .iter()
            .map(|delivery| {
                let (next, error) = match delivery.id.number() % 5 {
                    0 => (Next::Dead, Some("refused".to_owned())),
                    1 if delivery.attempt < 2 => (Next::Retry(NOW), Some("no room".to_owned())),
                    2 if delivery.token < 3 => (Next::Untried, None),
                    _ => (Next::Delivered, None),
                };
                let (number, duration) = (delivery.attempt, Duration::from_millis(3));
                let attempt = Attempt { number, at: NOW, duration, status: None, error };
                Outcome { delivery: delivery.id, token: delivery.token, attempt, next }
            })
            .collect();
        store.settle_deliveries(&outcomes, NOW).await.unwrap();
        for dead in outcomes.iter().filter(|outcome| outcome.next == Next::Dead) {
            let verdict = match dead.delivery.number() % 3 {
                0 => Verdict::Abandon,
                1 if dead.token < 3 => Verdict::Retry,
                _ => continue,
            };
            store.decide_delivery(dead.delivery, verdict, NOW).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_assigned_and_delivered_by_many_at_once() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store).await;
    let (stop, stopped) = watch::channel(false);
    let relays: Vec<_> = [false, true, false]
        .map(|ordered| tokio::spawn(deliver(Arc::clone(&store), ordered, stopped.clone())))
        .into();
    let tasks: Vec<_> = (0..4)
        .map(|instance| tokio::spawn(assign(Arc::clone(&store), type_id, instance)))
        .collect();
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap();
    }
    stop.send(true).unwrap();
    for relay in relays {
        relay.await.unwrap();
    }
    // Half of them came four times and were one.
    assert_eq!(new, GROUPS * GROUP / 2 + 4 * GROUPS * GROUP / 2);
    let sql = "SELECT (SELECT count(*) FROM deliveries),
                   (SELECT count(*) FROM settled_deliveries)
                       + (SELECT coalesce(sum(stop - start), 0)::bigint FROM arrivals),
                   (SELECT count(*) FROM pending_deliveries) + (SELECT count(*) FROM consignments),
                   (SELECT count(*) FROM deliveries WHERE 1 <> (
                       (SELECT count(*) FROM settled_deliveries AS settled
                        WHERE settled.number = deliveries.number)
                       + (SELECT count(*) FROM arrivals
                          WHERE start <= deliveries.number AND deliveries.number < stop))),
                   (SELECT count(*) FROM settled_deliveries WHERE state <> 'delivered'),
                   (SELECT count(*) FROM gaps JOIN deliveries
                        ON deliveries.serial >= gaps.start AND deliveries.serial < gaps.stop
                        JOIN settled_deliveries AS settled USING (number)
                    WHERE closed_at IS NULL AND reason = CASE state WHEN 'dead' THEN 'outbox_dlq'
                        WHEN 'abandoned' THEN 'abandoned' END),
                   (SELECT coalesce(sum(stop - start), 0)::bigint FROM gaps WHERE closed_at IS NULL)";
    let row = databases.connect().await.query_one(sql, &[]).await.unwrap();
    let [on_record, settled, pending, misplaced, failed, explained, gaps]: [i64; 7] =
        [0, 1, 2, 3, 4, 5, 6].map(|column| row.get(column));
    assert_eq!(u64::try_from(on_record).unwrap(), new);
    assert_eq!((settled, pending, misplaced), (on_record, 0, 0));
    assert_eq!((explained, gaps), (failed, failed), "what failed is a gap, and nothing else is");
    let reconciled = store.reconcile(type_id, 1 << 30, NOW).await.unwrap();
    assert_eq!((reconciled.found, reconciled.done), (vec![], true));
    assert_eq!(databases.deadlocks().await, 0);
}

/// Two instances take numbers of one counter, each with its own idea of where it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_share_a_counter_leave_no_gaps() {
    let databases = Databases::create(1).await;
    let stores = [open(&databases).await, open(&databases).await];
    let type_id = new_type(&stores[0]).await;
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let store = Arc::clone(&stores[task % 2]);
            tokio::spawn(async move {
                for group in 0..GROUPS {
                    let order = Arc::new(DocumentOrder {
                        type_id,
                        revision: 0,
                        period: "2026".to_owned(),
                        numbers: Numbers::Counter {
                            bounds: BOUNDS,
                            render: Arc::new(|serials| serials.map(|s| s.to_string()).collect()),
                        },
                        sink: SINK,
                        in_order: false,
                        requests: requests(task as u64, group),
                        claimed_until: Some(NOW),
                        now: NOW,
                    });
                    store.assign_documents(&order).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let sql = "SELECT count(*), max(serial) + 1, count(*) FILTER (WHERE key <> serial::text)
               FROM deliveries";
    let row = databases.connect().await.query_one(sql, &[]).await.unwrap();
    let [documents, behind, mistaken]: [i64; 3] = [0, 1, 2].map(|column| row.get(column));
    assert_eq!((documents, mistaken), (behind, 0));
    let counters = stores[0].counters(type_id).await.unwrap();
    assert_eq!(counters, [("2026".to_owned(), u64::try_from(behind).unwrap())]);
    assert_eq!(databases.deadlocks().await, 0);
}

/// Once a type and its sink are in use, nobody asks the functions that look for all that may be wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_usual_document_is_one_statement() -> Result<(), StoreError> {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store).await;
    let (period, holder, revision) = ("", "somebody", 0);
    let draw = Draw { type_id, period, count: 10, bounds: BOUNDS, holder, revision, now: NOW };
    let drawn = store.draw(draw).await?.map(|serial| (serial, serial.to_string()));
    let mut drawn: Vec<(u64, String)> = drawn.collect();
    let render: Render = Arc::new(|serials| serials.map(|s| s.to_string()).collect());
    let mut instance = 0;
    let mut order = |numbers: Numbers, period: &str| {
        instance += 1;
        let (requests, period) = (requests(instance, instance).split_off(18), period.to_owned());
        DocumentOrder {
            type_id,
            revision,
            period,
            numbers,
            sink: SINK,
            in_order: false,
            requests,
            claimed_until: Some(NOW),
            now: NOW,
        }
    };
    let numbers = |ids: Vec<(u64, String)>| Numbers::Drawn { holder: holder.to_owned(), ids };
    let next = || Numbers::Counter { bounds: BOUNDS, render: Arc::clone(&render) };
    let mut ids = Vec::new();
    for is_usual in [false, true] {
        if is_usual {
            let sql = "DROP FUNCTION assign_documents, draw_serials, put_documents";
            databases.connect().await.batch_execute(sql).await.unwrap();
        }
        for order in [order(numbers(drawn.drain(..2).collect()), ""), order(next(), "2026")] {
            let assigned = store.assign_documents(&Arc::new(order)).await?;
            for assigned in assigned.into_iter().flatten() {
                let Assigned::New(new) = assigned else { panic!("{assigned:?}") };
                assert_eq!(
                    (new.content.subject.as_str(), new.attempt, new.token),
                    ("invoice", 1, i64::from(!is_usual))
                );
                ids.push(new.content.key);
            }
        }
    }
    assert_eq!(ids, ["0", "1", "0", "1", "2", "3", "2", "3"]);
    let left = store.open_draws(holder).await?;
    let [left] = &left[..] else { panic!("{left:?}") };
    assert_eq!(left.serials, 4..10);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_million_serials_are_looked_at_in_seconds() {
    const SERIALS: u64 = 10_000_000;
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store).await;
    let holder = "somebody";
    let draw =
        Draw { type_id, period: "", count: SERIALS, bounds: BOUNDS, holder, revision: 0, now: NOW };
    store.draw(draw).await.unwrap();
    // As if documents had come twenty at a time, except some, which a fault has swallowed.
    let log = format!(
        "INSERT INTO issue_log (type_id, period, width_log2, start, stop, entries)
         SELECT {}, '', 4, start, start + 20, '\\x0100' FROM generate_series(0, {SERIALS} - 1, 20) AS start
         WHERE start NOT BETWEEN 5000000 AND 5000099;
         DELETE FROM draws",
        type_id.0
    );
    databases.connect().await.batch_execute(&log).await.unwrap();
    let began = Instant::now();
    let reconciled = store.reconcile(type_id, SERIALS, NOW).await.unwrap();
    let elapsed = began.elapsed();
    assert_eq!((reconciled.serials, reconciled.done), (SERIALS, true));
    let [gap] = &reconciled.found[..] else { panic!("{:?}", reconciled.found) };
    assert_eq!(
        (gap.span.serials.clone(), gap.reason),
        (5_000_000..5_000_100, GapReason::UntrackedLoss)
    );
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    let again = store.reconcile(type_id, SERIALS, NOW).await.unwrap();
    assert_eq!((again.serials, again.found, again.done), (0, vec![], true));
}

/// A sink that refuses everything must not hold up the others, however many documents there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giving_up_on_documents_reads_only_these() -> Result<(), StoreError> {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store).await;
    let documents = format!(
        "INSERT INTO deliveries (receiver, key, subject, body, created_at, type_id, period, serial)
         SELECT {sink}, serial, 'invoice', '{{}}', now(), {type_id}, '', serial
         FROM generate_series(0, 499999) AS serial;
         INSERT INTO pending_deliveries (number, receiver, type_id, due_at, attempts, token)
         SELECT number, receiver, type_id, now(), 1, 1 FROM deliveries WHERE serial % 1000 < 4",
        sink = SINK.0,
        type_id = type_id.0
    );
    let client = databases.connect().await;
    client.batch_execute(&documents).await.unwrap();
    let pending = client.query("SELECT number FROM pending_deliveries", &[]).await.unwrap();
    let dead = |row: &tokio_postgres::Row| Outcome {
        delivery: storage::DeliveryId::new(row.get(0), 0),
        token: 1,
        attempt: Attempt {
            number: 1,
            at: NOW,
            duration: Duration::from_millis(1),
            status: Some(400),
            error: Some("rejected".to_owned()),
        },
        next: Next::Dead,
    };
    let outcomes: Vec<Outcome> = pending.iter().map(dead).collect();
    let began = Instant::now();
    let settled = store.settle_deliveries(&outcomes, NOW).await?;
    let elapsed = began.elapsed();
    assert_eq!(settled, vec![true; 2000]);
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    let sql = "SELECT count(*), sum(stop - start)::bigint FROM gaps WHERE reason = 'outbox_dlq'";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (500, 2000),
        "four in a row are one gap"
    );
    Ok(())
}

/// One that looks at serials keeps others off, and these do not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_looks_at_the_serials_of_a_type() -> Result<(), StoreError> {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store).await;
    let draw = Draw {
        type_id,
        period: "",
        count: 10,
        bounds: BOUNDS,
        holder: "somebody",
        revision: 0,
        now: NOW,
    };
    store.draw(draw).await?;
    let client = databases.connect().await;
    let slice = format!("BEGIN; SELECT reconcile_slice({}, 5, now())", type_id.0);
    client.batch_execute(&slice).await.unwrap();
    let busy = store.reconcile(type_id, 100, NOW).await?;
    assert_eq!((busy.serials, busy.done), (0, true));
    client.batch_execute("COMMIT").await.unwrap();
    let rest = store.reconcile(type_id, 100, NOW).await?;
    assert_eq!((rest.serials, rest.done), (5, true));
    Ok(())
}
