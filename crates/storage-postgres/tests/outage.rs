//! The server is killed, stopped and started again. Nothing has to be reopened.

#[path = "support/orders.rs"]
mod orders;
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use storage::{BatchStore, CounterStore, Draw, Store, StoreError, TypeId, TypeStore, always};
use storage_postgres::{PostgresSettings, PostgresStore};
use support::{Databases, Servers};
use tokio::sync::Mutex;

/// There is one server for all tests here, so they break it one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn new_type(store: &PostgresStore) -> TypeId {
    let id_type = IdType::new("acme", "order", Kind::Sequence(SequenceSpec::default())).unwrap();
    store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await.unwrap().id
}

fn order(type_id: TypeId) -> Draw<'static> {
    let (bounds, now) = ((0, SERIAL_MAX), Timestamp::UNIX_EPOCH);
    Draw { type_id, period: "", count: 3, bounds, holder: "me", revision: 0, now }
}

/// Tasks that draw while the server is killed.
const TASKS: usize = 4;

/// Tries until it works, and returns how long that took.
async fn recover(store: &PostgresStore, id: TypeId) -> Duration {
    let began = Instant::now();
    loop {
        match store.draw(order(id)).await {
            Ok(_) => return began.elapsed(),
            Err(error) => assert!(error.is_unavailable(), "{error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it does not recover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draws_go_on_after_the_server_was_killed() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let databases = Databases::create(1).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let id = new_type(&store).await;
    let (tell, told) = std::sync::mpsc::channel();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (store, tell) = (Arc::clone(&store), tell.clone());
            tokio::spawn(async move {
                let (mut drawn, mut failed) = (Vec::new(), 0);
                while failed == 0 || drawn.len() < 200 {
                    match store.draw(order(id)).await {
                        Ok(range) => {
                            drawn.push(range);
                            if drawn.len() == 20 {
                                tell.send("draws").unwrap();
                            }
                        }
                        Err(error) => {
                            assert!(error.is_unavailable(), "{error}");
                            failed += 1;
                            if failed == 1 {
                                tell.send("fails").unwrap();
                            }
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                }
                drawn
            })
        })
        .collect();
    // Each of them draws before the server is killed, and fails before it is back.
    tokio::task::spawn_blocking(move || {
        let wait_for_all = |what| {
            for _ in 0..TASKS {
                assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(what));
            }
        };
        wait_for_all("draws");
        Servers::shared().tell("kill", "postgres");
        wait_for_all("fails");
        Servers::shared().tell("restart", "postgres");
    })
    .await
    .unwrap();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all.sort_by_key(|range| range.start);
    assert!(all.is_sorted_by(|a, b| a.end <= b.start), "a serial came twice");
    // What was drawn without an answer is on record.
    let drawn: u64 = all.iter().map(|range| range.end - range.start).sum();
    let open = store.open_draws("me").await.unwrap();
    let on_record: u64 = open.iter().map(|span| span.serials.end - span.serials.start).sum();
    assert_eq!(on_record, store.counters(id).await.unwrap()[0].1);
    assert!(on_record >= drawn, "{on_record} {drawn}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_two_steps_goes_unnoticed() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let databases = Databases::create(1).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let id = new_type(&store).await;
    assert_eq!(store.draw(order(id)).await.unwrap(), 0..3);
    tokio::task::spawn_blocking(|| Servers::shared().tell("restart", "postgres")).await.unwrap();
    assert_eq!(store.draw(order(id)).await.unwrap(), 3..6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_unavailable_in_time() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let databases = Databases::create(1).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let id = new_type(&store).await;
    store.draw(order(id)).await.unwrap();
    tokio::task::spawn_blocking(|| Servers::shared().tell("pause", "postgres")).await.unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        let refused = store.draw(order(id)).await;
        assert!(refused.as_ref().is_err_and(StoreError::is_unavailable), "{refused:?}");
        assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    }
    tokio::task::spawn_blocking(|| Servers::shared().tell("resume", "postgres")).await.unwrap();
    let took = recover(&store, id).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    store.check().await.unwrap();
}

/// A server that dies at a statement may have done it; one that is not there has heard of nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_was_never_sent_is_without_a_connection() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let databases = Databases::create(1).await;
    let store = PostgresStore::open(databases.settings()).await.unwrap();
    let id = new_type(&store).await;
    store.draw(order(id)).await.unwrap();
    let (client, other) = (databases.connect().await, databases.connect().await);
    other.batch_execute("BEGIN; LOCK TABLE counters").await.unwrap();
    let drawing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.draw(order(id)).await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    tokio::task::spawn_blocking(|| Servers::shared().tell("kill", "postgres")).await.unwrap();
    let in_doubt = drawing.await.unwrap();
    let never_sent = store.draw(order(id)).await;
    tokio::task::spawn_blocking(|| Servers::shared().tell("restart", "postgres")).await.unwrap();
    assert!(matches!(in_doubt, Err(StoreError::Unavailable(_))), "{in_doubt:?}");
    assert!(matches!(never_sent, Err(StoreError::NoConnection(_))), "{never_sent:?}");
    recover(&store, id).await;
}

/// The server stands still when a claim reaches it, and takes it when nobody waits for it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_got_lost_comes_back() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let databases = Databases::create(1).await;
    // Without a statement to be prepared first, the claim is all that is sent.
    let settings = PostgresSettings { prepared_statements: false, ..databases.settings() };
    let store = PostgresStore::open(settings).await.unwrap();
    let id = orders::new_type(&store, "code").await;
    orders::ordered(&store, &orders::new_order(id, 0, 20, 10)).await;
    let (worker, terms) = (orders::worker(0), orders::terms());
    tokio::task::spawn_blocking(|| Servers::shared().tell("pause", "postgres")).await.unwrap();
    let lost = store.claim_chunk(&worker, None, terms).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    tokio::task::spawn_blocking(|| Servers::shared().tell("resume", "postgres")).await.unwrap();
    let client = databases.connect().await;
    let sql = "SELECT count(*) FROM chunks WHERE state = 'running'";
    let began = Instant::now();
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "the claim never arrived");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let chunk = store.claim_chunk(&worker, None, terms).await.unwrap().unwrap();
    assert_eq!((chunk.number, chunk.attempt), (0, 1));
    assert!(store.finish_chunk(&chunk, always(orders::NOW)).await.unwrap());
    assert_eq!(store.claim_chunk(&worker, None, terms).await.unwrap().unwrap().number, 1);
}
