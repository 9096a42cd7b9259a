//! Webhooks on the embedded store: what becomes of messages when one wants no more.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use engine::Engine;
use engine::backoff::Backoff;
use engine::outbox::{Carrier, DeliverySettings, Letter, OutboxSettings, Reply, WriteOrder};
use engine::webhooks::{EventKind, WebhookOrder};
use storage::{DeliveryFilter, DeliveryRecord, DeliveryState};
use support::{Fixture, one_code, open, settings};

const TYPE: &str = r#"{"name": "label", "random":
    {"alphabet": "crockford32", "length": 16, "ledger": "derived"}}"#;

/// Answers everything with one status.
struct Answers(AtomicU16);

#[async_trait::async_trait]
impl Carrier for Answers {
    fn check_address(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn check_directory(&self, _: &str) -> Result<(), String> {
        Err("nothing is written from here".to_owned())
    }

    async fn post(&self, _: Letter) -> Result<Reply, String> {
        Ok(Reply { status: self.0.load(Ordering::SeqCst), retry_after: None })
    }

    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>> {
        vec![Err("nothing is written from here".to_owned()); order.files.len()]
    }
}

async fn put(engine: &Arc<Engine>) -> storage::ReceiverId {
    let order = WebhookOrder {
        tenant: "default".to_owned(),
        name: "erp".to_owned(),
        url: "https://erp.example.com".to_owned(),
        events: vec![EventKind::BatchCompleted],
    };
    engine.put_webhook(order).await.unwrap().webhook.id()
}

/// Something to tell.
async fn order(engine: &Engine) {
    engine.batches.order(one_code("label")).await.unwrap();
}

/// Waits until the deliveries are as they should be, the latest first.
async fn wait_for(
    engine: &Engine,
    receiver: storage::ReceiverId,
    are: impl Fn(&[DeliveryRecord]) -> bool,
) -> Vec<DeliveryRecord> {
    let tenant = "default".to_owned();
    let filter = DeliveryFilter { tenant, receiver, state: None, before: None, limit: 10 };
    loop {
        let found = engine.outbox.deliveries(&filter).await.unwrap();
        if are(&found) {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// What waits for another attempt would go out hours later, if somebody puts the webhook again.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_disabled_webhook_is_a_dead_letter() {
    let (mut fixture, answers) = (Fixture::new(), Arc::new(Answers(AtomicU16::new(500))));
    let backoff = Backoff { retries: 9, first: Duration::from_secs(12 * 3600), factor: 1 };
    let webhooks = DeliverySettings { timeout: Duration::from_secs(5), at_once: 4, backoff };
    let settings = settings();
    let outbox = OutboxSettings { webhooks, ..settings.outbox };
    let settings = engine::EngineSettings { outbox, ..settings };
    let store = Arc::new(open(fixture.directory.path()));
    let carrier = Arc::clone(&answers) as Arc<dyn Carrier>;
    let engine = fixture.start_set(store, carrier, &settings).await;
    engine.put_type(serde_json::from_str(TYPE).unwrap()).await.unwrap();
    let webhook = put(&engine).await;

    order(&engine).await;
    wait_for(&engine, webhook, |found| found.first().is_some_and(|one| one.last.is_some())).await;
    answers.0.store(410, Ordering::SeqCst);
    order(&engine).await;
    let dead = |one: &DeliveryRecord| one.state == DeliveryState::Dead;
    let found = wait_for(&engine, webhook, |found| found.len() == 2 && dead(&found[0])).await;
    assert_eq!(found[1].state, DeliveryState::Pending, "an attempt may be under way elsewhere");

    // Long before it would be due.
    fixture.clock.advance(60_000);
    let found = wait_for(&engine, webhook, |found| found.iter().all(dead)).await;
    let last = found[1].last.clone().unwrap();
    assert_eq!(last.error.as_deref(), Some("erp was disabled"));
    engine.shut_down().await;
}
