//! Batches on a real server: that nobody waits for anybody in a circle, and how fast codes are written.

#[path = "support/orders.rs"]
mod orders;
mod support;

use std::sync::Arc;
use std::time::Duration;

use orders::{NOW, new_order, new_type, ordered, terms, worker};
use storage::{
    Batch, BatchState, BatchStore, CodeKey, CodeStore, DeadFilter, GapFilter, IssueStore, Ledger,
    OutboxStore, Page, Verdict, always,
};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::Databases;

async fn open(databases: &Databases) -> Arc<PostgresStore> {
    let settings =
        PostgresSettings { step_timeout: Duration::from_secs(20), ..databases.settings() };
    PostgresStore::open(settings).await.unwrap()
}

async fn order(store: &PostgresStore, name: &str, count: u64, chunk_serials: u64) -> Batch {
    let type_id = new_type(store, name).await;
    ordered(store, &new_order(type_id, 0, count, chunk_serials)).await
}

/// Makes chunks until none is left. Every third one fails first.
async fn work(store: Arc<PostgresStore>, number: u32) {
    let mut turn = number;
    while let Some(chunk) = store.claim_chunk(&worker(number), None, terms()).await.unwrap() {
        turn += 1;
        if turn.is_multiple_of(3) {
            store.fail_chunk(&chunk, "on purpose", None, NOW).await.unwrap();
        } else {
            store.finish_chunk(&chunk, always(NOW)).await.unwrap();
        }
    }
}

/// Decides about dead letters for a while.
async fn settle(store: Arc<PostgresStore>) {
    for round in 0..20 {
        let filter = DeadFilter { limit: 100, ..DeadFilter::default() };
        let dead = store.dead_chunks(&filter).await.unwrap();
        let dead: Vec<_> = dead.iter().map(|dead| (dead.batch, dead.number)).collect();
        let verdict = if round % 2 == 0 { Verdict::Retry } else { Verdict::Abandon };
        store.settle_chunks(&dead, verdict, NOW).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_those_who_cancel_do_not_block_each_other() {
    const SERIALS: u64 = 40 * 2000;
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let mut batches = Vec::new();
    for number in 0..4 {
        batches.push(order(&store, &format!("code{number}"), SERIALS, 2000).await);
    }
    let mut tasks: Vec<_> =
        (0..4).map(|worker| tokio::spawn(work(Arc::clone(&store), worker))).collect();
    tasks.push(tokio::spawn(settle(Arc::clone(&store))));
    for batch in &batches {
        // In the middle of it.
        while store.batch(batch.id).await.unwrap().unwrap().made < SERIALS / 10 {}
        store.cancel_batch(batch.id, None, NOW).await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    for batch in batches {
        let now = store.batch(batch.id).await.unwrap().unwrap();
        assert!(matches!(now.state, BatchState::Cancelled | BatchState::Completed), "{now:?}");
        let all = GapFilter {
            type_id: batch.type_id,
            reasons: Vec::new(),
            from: None,
            to: None,
            with_closed: false,
            page: Page { after: 0, limit: 1000 },
        };
        let lost = store.count_gaps(&all).await.unwrap().serials;
        assert_eq!(now.made + lost, SERIALS);
        let made = store.made(batch.id).await.unwrap();
        assert_eq!(made.iter().map(|range| range.end - range.start).sum::<u64>(), now.made);
        let sql = format!("SELECT count(*) FROM codes_{}_0", batch.type_id.0);
        let rows = databases.connect().await.query(&sql, &[]).await;
        let rows: i64 = rows.map_or(0, |rows| rows[0].get(0));
        assert_eq!(rows.unsigned_abs(), now.made);
    }
    assert_eq!(databases.deadlocks().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_scans_in_any_order_do_not_block_each_other() {
    const CODES: u64 = 200;
    const ROUNDS: u64 = 20;
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let batch = order(&store, "code", CODES, CODES).await;
    work(Arc::clone(&store), 0).await;
    let key = |position| CodeKey {
        type_id: batch.type_id,
        batch: batch.id,
        ledger: Ledger::Stored,
        serial: batch.serials.start + position,
    };
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let mut scans: Vec<_> = (0..CODES).map(|position| (key(position), 1)).collect();
            if task % 2 == 0 {
                scans.reverse();
            }
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..ROUNDS {
                    let found = store.scan(&scans, &[], NOW).await.unwrap();
                    assert!(found.iter().all(Option::is_some));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for position in 0..CODES {
        let status = store.code(&key(position)).await.unwrap().unwrap();
        assert_eq!(status.scans, 6 * ROUNDS);
    }
    assert_eq!(databases.deadlocks().await, 0);
}

/// Instances of the release before go on working on databases that this one has changed.
#[tokio::test]
async fn the_release_before_can_order_and_claim() {
    let databases = Databases::create(1).await;
    let store = open(&databases).await;
    let client = databases.connect().await;
    let id = new_type(&store, "code").await;
    let sql = "SELECT outcome, (batch).id, (batch).state
               FROM order_batch($1, 0, 20, 0, 1000, 10, $2, NULL, NULL, 7, NULL, 9, 100, 0, 1, now())";
    let row = client.query_one(sql, &[&id.0, &"derived"]).await.unwrap();
    assert_eq!((row.get(0), row.get(2)), ("done", "completed"));
    let events = store.events(10).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].batch.id.0, row.get::<_, i64>(1));
    let row = client.query_one(sql, &[&id.0, &"stored"]).await.unwrap();
    assert_eq!((row.get(0), row.get(2)), ("done", "queued"));
    let sql = "SELECT (claimed).number FROM claim_chunk('me', now(), now() - interval '1 hour', 3)";
    for number in 0..2 {
        // Its workers share a name, so none of them has lost a claim.
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), number);
    }
    assert_eq!(store.claim_chunk(&worker(0), None, terms()).await.unwrap(), None);
}
