//! Gaps that are ranges, on a real server: several change parts of one at the same time.

mod support;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use storage::{
    Attempt, CounterStore, DeliveryId, DocumentOrder, DocumentStore, Draw, GapReason, Issue,
    IssueGroup, IssueStore, NewDocument, Next, Numbers, OutboxStore, Outcome, ReceiverId, Span,
    TypeId, TypeStore, Verdict,
};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;
use tokio_postgres::Client;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const SINK: ReceiverId = ReceiverId(5);
const HOLDER: &str = "somebody";
const DOCUMENTS: i64 = 1000;
const SETTLERS: i64 = 4;

/// Outcomes of one step.
const STEP: usize = 8;

async fn open(databases: &Databases) -> Arc<PostgresStore> {
    let settings =
        PostgresSettings { step_timeout: Duration::from_secs(20), ..databases.settings() };
    PostgresStore::open(settings).await.unwrap()
}

async fn new_type(store: &PostgresStore, name: &str) -> TypeId {
    let spec = format!(r#"{{"tenant": "acme", "name": "{name}", "sequence": {{}}}}"#);
    let id_type = serde_json::from_str(&spec).unwrap();
    store.create_type(&id_type, b"", NOW).await.unwrap().id
}

/// A document: its type, its serial, and its delivery.
#[derive(Clone, Copy)]
struct Document {
    type_id: TypeId,
    serial: i64,
    delivery: DeliveryId,
}

/// What becomes of a document when all are tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    FailsAgain,
    IsGivenUp,
}

impl Document {
    /// Those of the types differ, so that a step finds some of one type and loses some of another.
    fn fate(self) -> Fate {
        match (self.serial + self.type_id.0 / 256) % 10 {
            3 => Fate::FailsAgain,
            7 => Fate::IsGivenUp,
            _ => Fate::Arrives,
        }
    }

    fn outcome(self, token: i64, next: Next) -> Outcome {
        let error = (next == Next::Dead).then(|| "rejected".to_owned());
        let duration = Duration::from_millis(1);
        let attempt = Attempt { number: 1, at: NOW, duration, status: None, error };
        Outcome { delivery: self.delivery, token, attempt, next }
    }
}

/// Documents of a type that were claimed.
async fn put_documents(client: &Client, type_id: TypeId) -> Vec<Document> {
    let sql = format!(
        "WITH put AS (
             INSERT INTO deliveries (receiver, key, subject, body, created_at, type_id, period, serial)
             SELECT {sink}, serial, 'invoice', '{{}}', now(), {type_id}, '', serial
             FROM generate_series(0, {DOCUMENTS} - 1) AS serial
             RETURNING number, receiver, type_id, serial
         ), claimed AS (
             INSERT INTO pending_deliveries (number, receiver, type_id, due_at, attempts, token)
             SELECT number, receiver, type_id, now(), 1, 1 FROM put
         )
         SELECT number, serial FROM put ORDER BY serial",
        sink = SINK.0,
        type_id = type_id.0
    );
    let rows = client.query(&sql, &[]).await.unwrap();
    let document = |row: &tokio_postgres::Row| Document {
        type_id,
        serial: row.get(1),
        delivery: DeliveryId::new(row.get(0), 0),
    };
    rows.iter().map(document).collect()
}

/// Puts documents on record, loses all of a type together and has them tried again.
async fn lose_and_retry(store: &PostgresStore, client: &Client, type_id: TypeId) -> Vec<Document> {
    let documents = put_documents(client, type_id).await;
    let dead: Vec<Outcome> =
        documents.iter().map(|document| document.outcome(1, Next::Dead)).collect();
    let settled = store.settle_deliveries(&dead, NOW).await.unwrap();
    assert!(settled.iter().all(|counted| *counted));
    let numbers: Vec<DeliveryId> = documents.iter().map(|document| document.delivery).collect();
    let retried = store.decide_documents(type_id, &numbers, Verdict::Retry, NOW).await.unwrap();
    assert_eq!(retried.len(), documents.len());
    assert_eq!(open_gaps(client, type_id).await, [(0, DOCUMENTS, "outbox_dlq".to_owned())]);
    documents
}

async fn open_gaps(client: &Client, type_id: TypeId) -> Vec<(i64, i64, String)> {
    let sql = "SELECT start, stop, reason FROM gaps WHERE type_id = $1 AND closed_at IS NULL
               ORDER BY start, stop";
    let rows = client.query(sql, &[&type_id.0]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// Settles what does not fall to others, a few at a time.
async fn settle(store: Arc<PostgresStore>, documents: Vec<Document>) {
    for step in documents.chunks(STEP) {
        let outcomes: Vec<Outcome> = step
            .iter()
            .map(|document| match document.fate() {
                Fate::FailsAgain => document.outcome(2, Next::Dead),
                _ => document.outcome(2, Next::Delivered),
            })
            .collect();
        let settled = store.settle_deliveries(&outcomes, NOW).await.unwrap();
        assert_eq!(settled, vec![true; step.len()]);
    }
}

async fn give_up(store: Arc<PostgresStore>, documents: Vec<Document>) {
    for document in documents {
        let decided = store.decide_delivery(document.delivery, Verdict::Abandon, NOW).await;
        assert!(decided.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_were_lost_together_are_settled_by_many_at_once() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let client = databases.connect().await;
    let types = [new_type(&store, "invoice").await, new_type(&store, "receipt").await];
    let mut documents = lose_and_retry(&store, &client, types[0]).await;
    documents.extend(lose_and_retry(&store, &client, types[1]).await);
    documents.sort_by_key(|document| (document.serial, document.type_id));

    let (given_up, to_settle): (Vec<Document>, Vec<Document>) =
        documents.iter().partition(|document| document.fate() == Fate::IsGivenUp);
    let mut tasks: Vec<_> = (0..SETTLERS)
        .map(|settler| {
            let own = to_settle.iter().filter(|own| own.serial % SETTLERS == settler);
            tokio::spawn(settle(Arc::clone(&store), own.copied().collect()))
        })
        .collect();
    tasks.push(tokio::spawn(give_up(Arc::clone(&store), given_up)));
    for task in tasks {
        task.await.unwrap();
    }

    for type_id in types {
        let own = documents.iter().filter(|document| document.type_id == type_id);
        let expected = own.filter_map(|document| match document.fate() {
            Fate::Arrives => None,
            Fate::FailsAgain => Some((document.serial, "outbox_dlq".to_owned())),
            Fate::IsGivenUp => Some((document.serial, "abandoned".to_owned())),
        });
        let gaps = open_gaps(&client, type_id).await.into_iter();
        let open = gaps.flat_map(|(start, stop, why)| (start..stop).map(move |s| (s, why.clone())));
        let (open, expected): (Vec<_>, Vec<_>) = (open.collect(), expected.collect());
        assert_eq!(open, expected, "what has not arrived is a gap, once, and nothing else is");
    }
    assert_eq!(databases.deadlocks().await, 0);
}

/// A late entry of the log.
async fn record(store: Arc<PostgresStore>, type_id: TypeId, serial: u64) {
    let issue = Issue { first: serial, last: serial, key_id: 0, at_ms: 0 };
    let span = Span { type_id, period: String::new(), serials: serial..serial + 1 };
    store.record_issues(&[IssueGroup { span, issues: vec![issue] }]).await.unwrap();
}

/// A document with a number that was drawn.
async fn assign(store: Arc<PostgresStore>, type_id: TypeId, serial: u64) {
    let (payload, reference, request_key) = (serial.to_string(), None, None);
    let order = DocumentOrder {
        type_id,
        revision: 0,
        period: String::new(),
        numbers: Numbers::Drawn {
            holder: HOLDER.to_owned(),
            ids: vec![(serial, serial.to_string())],
        },
        sink: SINK,
        in_order: false,
        requests: vec![vec![NewDocument { payload, reference, request_key, key_id: 0 }]],
        claimed_until: None,
        now: NOW,
    };
    store.assign_documents(&Arc::new(order)).await.unwrap();
}

/// Somebody was taken for gone with many serials, and goes on all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serials_of_one_gap_are_issued_by_several_at_once() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let type_id = new_type(&store, "invoice").await;
    let (period, holder, bounds) = ("", HOLDER, (0, 1 << 40));
    let draw = Draw { type_id, period, count: 40, bounds, holder, revision: 0, now: NOW };
    let serials = store.draw(draw).await.unwrap();
    let drawn = Span { type_id, period: String::new(), serials };
    store.close_draws(HOLDER, &[drawn], GapReason::Crash, NOW).await.unwrap();

    let (client, other) = (databases.connect().await, databases.connect().await);
    let take_off =
        format!("BEGIN; SELECT take_off_gaps('{{{}}}', '{{\"\"}}', '{{10}}', '{{11}}')", type_id.0);
    other.batch_execute(&take_off).await.unwrap();
    let tasks = [
        tokio::spawn(record(Arc::clone(&store), type_id, 20)),
        tokio::spawn(assign(Arc::clone(&store), type_id, 30)),
    ];
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) < 2 {}
    other.batch_execute("COMMIT").await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }

    let left = [(0, 10), (11, 20), (21, 30), (31, 40)];
    let left = left.map(|(start, stop)| (start, stop, "crash".to_owned()));
    assert_eq!(open_gaps(&client, type_id).await, left);
}
