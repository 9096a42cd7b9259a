//! Batches on the embedded store: what people decide about chunks that failed, and workers that panic.

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::batches::{BatchRequest, BatchSettings};
use engine::documents::Decision;
use engine::surroundings::Clock;
use engine::{Engine, EngineParts, EngineSettings};
use storage::{
    Batch, BatchState, BatchStore as _, ClaimTerms, DeadFilter, DeedFilter, Verdict, WorkerName,
};
use storage_sqlite::SqliteStore;
use support::{Fixture, NOON_MS, NoCarrier, one_code, open, settings};
use tokio::task;

const TYPE: &str = r#"{"name": "bottle", "random": {"alphabet": "crockford32", "length": 16}}"#;

async fn order(engine: &Engine, count: u64) -> Batch {
    let request = BatchRequest { count, ..one_code("bottle") };
    engine.batches.order(request).await.unwrap().0
}

/// An order all of whose chunks are dead letters.
async fn dead_batch(engine: &Engine, store: &SqliteStore, count: u64) -> Batch {
    let batch = order(engine, count).await;
    let worker = WorkerName { instance: "test".to_owned(), number: 0 };
    let (silent, now) = (Duration::from_secs(60), batch.created_at);
    let terms = ClaimTerms { silent, attempts_max: 1, now };
    while let Some(chunk) = store.claim_chunk(&worker, None, terms).await.unwrap() {
        assert!(store.fail_chunk(&chunk, "no luck", None, now).await.unwrap());
    }
    batch
}

#[tokio::test(flavor = "multi_thread")]
async fn who_decides_about_a_chunk_and_why_is_in_the_audit_log() {
    let mut fixture = Fixture::new();
    let store = Arc::new(open(fixture.directory.path()));
    let engine = fixture.start_with(Arc::clone(&store), Arc::new(NoCarrier)).await;
    engine.put_type(serde_json::from_str(TYPE).unwrap()).await.unwrap();
    let batch = dead_batch(&engine, &store, 250).await;

    let decide = async |chunk, decision| {
        let filter = DeadFilter { batch: Some(batch.id), chunk, ..DeadFilter::default() };
        engine.batches.settle(Some("default"), None, filter, decision).await.unwrap()
    };
    let abandon = Decision { verdict: Verdict::Abandon, key_id: 8, reason: Some("not needed") };
    assert_eq!(decide(Some(1), abandon).await, 1);
    assert_eq!(decide(Some(1), abandon).await, 0, "it is none any more");
    let retry = Decision { verdict: Verdict::Retry, key_id: 9, reason: None };
    assert_eq!(decide(None, retry).await, 2);

    let filter = DeedFilter {
        tenant: Some("default".to_owned()),
        subject: Some(batch.id.0.to_string()),
        limit: 10,
        ..DeedFilter::default()
    };
    let deeds = engine.audit.list(&filter).await.unwrap();
    let deeds: Vec<_> = deeds
        .iter()
        .map(|(_, deed)| (deed.action.as_str(), deed.key_id, deed.detail.as_str()))
        .collect();
    assert_eq!(
        deeds,
        [
            ("chunk.retried", 9, r#"{"chunk":2,"reason":null}"#),
            ("chunk.retried", 9, r#"{"chunk":0,"reason":null}"#),
            ("chunk.abandoned", 8, r#"{"chunk":1,"reason":"not needed"}"#),
        ]
    );
    let (batch, _) = engine.batches.find(batch.id, None).await.unwrap();
    assert_eq!((batch.state, batch.abandoned), (BatchState::Running, 100));
    engine.shut_down().await;
}

/// Panics while it is broken, and counts how often it did so in each task.
#[derive(Default)]
struct BrokenClock {
    is_broken: AtomicBool,
    panics: Mutex<HashMap<Option<task::Id>, u32>>,
}

impl Clock for BrokenClock {
    fn now_ms(&self) -> i64 {
        if self.is_broken.load(Ordering::SeqCst) {
            *self.panics.lock().unwrap().entry(task::try_id()).or_default() += 1;
            panic!("the clock is broken");
        }
        NOON_MS
    }
}

async fn wait_until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !condition().await {
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panics_goes_on() {
    let mut fixture = Fixture::new();
    let store = Arc::new(open(fixture.directory.path()));
    let clock = Arc::new(BrokenClock::default());
    let parts = fixture.parts(store, Arc::new(NoCarrier));
    let parts = EngineParts { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..parts };
    let batches = BatchSettings { workers: 1, ..settings().batches };
    let settings = EngineSettings { batches, ..settings() };
    let engine = Arc::new(Engine::start(parts, settings).await.unwrap());
    engine.put_type(serde_json::from_str(TYPE).unwrap()).await.unwrap();

    clock.is_broken.store(true, Ordering::SeqCst);
    wait_until("a task that panicked goes on, and panics again", async || {
        clock.panics.lock().unwrap().values().any(|panics| *panics > 1)
    })
    .await;
    clock.is_broken.store(false, Ordering::SeqCst);
    let batch = order(&engine, 250).await;
    wait_until("the batch is completed", async || {
        let (batch, _) = engine.batches.find(batch.id, None).await.unwrap();
        batch.state == BatchState::Completed
    })
    .await;
}
