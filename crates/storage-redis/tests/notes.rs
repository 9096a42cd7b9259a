//! What instances note for each other: how far batches are, and how codes stand.

mod support;

use std::time::Duration;

use storage::{
    BatchId, BatchState, BoardTime, CodeKey, CodeStatus, HotCodes, Ledger, Progress, ProgressBoard,
    TypeId, Void,
};
use storage_redis::SharedRedis;
use support::redis::Redis;
use support::{World, until};

const LONG: Duration = Duration::from_secs(60);

fn void(reason: &str) -> Void {
    Void { at: "2026-11-17T10:00:00.25Z".parse().unwrap(), reason: reason.to_owned() }
}

fn begun() -> Progress {
    Progress {
        state: BatchState::Running,
        made: 100_000,
        abandoned: 0,
        dead_chunks: 1,
        error: Some("the store was unavailable".to_owned()),
        started_at: Some("2026-11-17T09:00:00.123456Z".parse().unwrap()),
        finished_at: None,
        idle_since: Some("2026-11-17T09:30:00Z".parse().unwrap()),
        idle: Duration::from_micros(1_500_001),
        recalled: Some(void("a\nb")),
    }
}

fn code(serial: u64) -> CodeKey {
    CodeKey { type_id: TypeId(7), batch: BatchId(1), ledger: Ledger::Stored, serial }
}

#[tokio::test]
async fn everybody_sees_how_far_a_batch_is() {
    let (server, world) = (Redis::start(), World::new().await);
    let (one, other) = (world.pools(&server.url()).await, world.pools(&server.url()).await);
    let (batch, another) = (BatchId(1 << 40), BatchId(2 << 40));
    assert_eq!(other.progress(batch).await.unwrap(), None);
    one.show_progress(batch, &begun(), LONG).await.unwrap();
    assert_eq!(other.progress(batch).await.unwrap(), Some(begun()));
    assert_eq!(other.progress(another).await.unwrap(), None);
    let done = Progress {
        state: BatchState::Completed,
        error: None,
        finished_at: begun().started_at,
        idle_since: None,
        recalled: None,
        ..begun()
    };
    other.show_progress(batch, &done, LONG).await.unwrap();
    assert_eq!(one.progress(batch).await.unwrap(), Some(done), "nothing is left of the first");
    one.show_progress(another, &begun(), Duration::from_millis(5)).await.unwrap();
    until("it expires", async || one.progress(another).await.unwrap().is_none()).await;
    server.run::<()>("FLUSHALL");
    assert_eq!(one.progress(batch).await.unwrap(), None);
}

#[tokio::test]
async fn a_note_that_cannot_be_read_is_an_error_and_no_progress() {
    let (server, world) = (Redis::start(), World::new().await);
    let redis = world.pools(&server.url()).await;
    server.run::<()>("HSET mintage:{batch-9}:1:progress made 12");
    assert!(redis.progress(BatchId(9)).await.is_err());
    server.run::<()>("SET mintage:{7:1}:1:code nonsense PX 60000");
    assert!(redis.hot_code(&code(1)).await.is_err());
    server.run::<()>("SET mintage:{batch-9}:1:progress a-string");
    assert!(redis.progress(BatchId(9)).await.is_err());
    assert!(!redis.is_open(), "the pools are none the worse for it");
}

/// A moment so long after now.
async fn after(redis: &SharedRedis, wait: Duration) -> BoardTime {
    let BoardTime(now) = redis.hot_code(&code(0)).await.unwrap().at;
    BoardTime(now + u64::try_from(wait.as_millis()).unwrap())
}

/// What is noted of a code.
async fn noted(redis: &SharedRedis, serial: u64) -> Option<(CodeStatus, Duration)> {
    redis.hot_code(&code(serial)).await.unwrap().noted
}

#[tokio::test]
async fn the_first_note_of_a_code_stays_until_it_expires() {
    let (server, world) = (Redis::start(), World::new().await);
    let (one, other) = (world.pools(&server.url()).await, world.pools(&server.url()).await);
    let status = |scans| CodeStatus { scans, first_scanned_at: Some(void("").at), void: None };
    let long = after(&one, LONG).await;
    assert!(one.note_hot_code(&code(1), &status(1), long).await.unwrap());
    assert!(!other.note_hot_code(&code(1), &status(2), long).await.unwrap());
    let (found, left) = noted(&other, 1).await.unwrap();
    assert_eq!(found, status(1));
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
    assert_eq!(noted(&other, 2).await, None);
    let soon = after(&one, Duration::from_millis(300)).await;
    assert!(one.note_hot_code(&code(2), &status(1), soon).await.unwrap());
    until("it expires", async || noted(&one, 2).await.is_none()).await;
    // As if it had been on its way for all that time.
    one.note_hot_code(&code(2), &status(1), soon).await.unwrap();
    assert_eq!(noted(&one, 2).await, None, "what comes too late is not noted");
}

#[tokio::test]
async fn a_code_that_was_spoilt_cannot_be_noted_for_a_while() {
    let (server, world) = (Redis::start(), World::new().await);
    let (one, other) = (world.pools(&server.url()).await, world.pools(&server.url()).await);
    let stands = CodeStatus { scans: 3, first_scanned_at: None, void: Some(void("stolen")) };
    let long = after(&one, LONG).await;
    let cold = one.spoil_hot_code(&code(1), LONG).await.unwrap();
    assert_eq!(cold, Duration::ZERO, "nobody can believe anything of it");
    assert!(!other.note_hot_code(&code(1), &stands, long).await.unwrap());
    assert_eq!(noted(&other, 1).await, None);
    let second = other.spoil_hot_code(&code(1), LONG).await.unwrap();
    assert!(second > LONG / 2, "the first has perhaps not waited yet: {second:?}");
    assert!(other.note_hot_code(&code(2), &stands, long).await.unwrap());
    let hot = one.spoil_hot_code(&code(2), Duration::from_millis(5)).await.unwrap();
    assert!(hot > LONG / 2 && hot <= LONG, "{hot:?}");
    until("it can be noted again", async || {
        other.note_hot_code(&code(2), &stands, long).await.unwrap()
    })
    .await;
}
