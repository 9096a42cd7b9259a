//! Batches on the embedded store: what people decide about chunks that failed.

mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use engine::batches::BatchRequest;
use engine::documents::Decision;
use storage::{
    Batch, BatchState, BatchStore as _, ClaimTerms, DeadFilter, DeedFilter, Verdict, WorkerName,
};
use storage_sqlite::SqliteStore;
use support::{Fixture, NoCarrier, open};

const TYPE: &str = r#"{"name": "bottle", "random": {"alphabet": "crockford32", "length": 16}}"#;

/// An order all of whose chunks are dead letters.
async fn dead_batch(engine: &Engine, store: &SqliteStore, count: u64) -> Batch {
    let request = BatchRequest {
        tenant: "default",
        type_name: "bottle",
        count,
        name: None,
        metadata: None,
        notify: None,
        key_id: 7,
        order_key: None,
    };
    let (batch, _) = engine.batches.order(request).await.unwrap();
    let worker = WorkerName { instance: "test".to_owned(), number: 0 };
    let (silent, now) = (Duration::from_secs(60), batch.created_at);
    let terms = ClaimTerms { silent, attempts_max: 1, now };
    while let Some(chunk) = store.claim_chunk(&worker, terms).await.unwrap() {
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
