//! What the behaviours of the outbox have in common.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use storage::{
    Attempt, BatchId, Delivery, DeliveryFilter, DeliveryId, DeliveryRecord, Event, NewDelivery,
    NewReceiver, Next, Outcome, Purpose, ReceiverId, Store, TypeId, Wanted,
};

use crate::Fixture;
use crate::batch_support::{derived, type_of};
use crate::support::{at, crash, open};

/// For how many seconds deliveries are claimed.
pub(crate) const CLAIM_SECONDS: i64 = 60;

/// The tenant of most tests.
pub(crate) const TENANT: &str = "acme";

/// A webhook to be stored.
pub(crate) fn webhook(tenant: &str, name: &str) -> NewReceiver {
    NewReceiver {
        tenant: tenant.to_owned(),
        purpose: Purpose::Webhook,
        name: name.to_owned(),
        settings: r#"{"url": "https://example.com"}"#.to_owned(),
    }
}

/// Everything that nobody has made deliveries of.
pub(crate) async fn events(store: &dyn Store) -> Vec<Event> {
    store.events(1000).await.unwrap()
}

/// The latest event of a batch.
pub(crate) async fn event_of(store: &dyn Store, batch: BatchId) -> Event {
    let mut found = events(store).await;
    found.retain(|event| event.batch.id == batch);
    found.pop().expect("the batch came to a state that is told")
}

/// How an attempt of a claimed delivery went that began at a time.
pub(crate) fn attempt(delivery: &Delivery, seconds: i64, error: Option<&str>) -> Attempt {
    Attempt {
        number: delivery.attempt,
        at: at(seconds),
        duration: Duration::from_millis(1234),
        status: Some(if error.is_some() { 503 } else { 204 }),
        error: error.map(str::to_owned),
    }
}

/// The end of an attempt that began at a time.
pub(crate) fn outcome(delivery: &Delivery, seconds: i64, next: Next) -> Outcome {
    let error = (next != Next::Delivered).then_some("on purpose");
    let attempt = attempt(delivery, seconds, error);
    Outcome { delivery: delivery.id, token: delivery.token, attempt, next }
}

/// The keys of claimed deliveries.
pub(crate) fn keys(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| delivery.content.key.as_str()).collect()
}

/// A store with a receiver, and a type whose batches tell of themselves.
#[derive(Clone)]
pub(crate) struct Outbox {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tenant: String,
    pub(crate) type_id: TypeId,
    pub(crate) receiver: ReceiverId,
}

impl Outbox {
    /// Opens a store for the first time.
    pub(crate) async fn open(fixture: &dyn Fixture) -> Self {
        Self::of(&open(fixture).await, TENANT).await
    }

    /// Another tenant of a store.
    pub(crate) async fn of(store: &Arc<dyn Store>, tenant: &str) -> Self {
        let store = Arc::clone(store);
        let type_id = type_of(&*store, tenant, "code").await;
        let receiver = store.create_receiver(&webhook(tenant, "hook"), at(0)).await.unwrap().id;
        Self { store, tenant: tenant.to_owned(), type_id, receiver }
    }

    /// Another receiver of the same tenant.
    pub(crate) async fn with_receiver(&self, name: &str) -> Self {
        let receiver = webhook(&self.tenant, name);
        Self {
            store: Arc::clone(&self.store),
            tenant: self.tenant.clone(),
            type_id: self.type_id,
            receiver: self.store.create_receiver(&receiver, at(0)).await.unwrap().id,
        }
    }

    /// Opens the store again after a crash.
    pub(crate) async fn crash(self, fixture: &dyn Fixture) -> Self {
        Self { store: crash(fixture, self.store).await, ..self }
    }

    /// A batch is complete.
    pub(crate) async fn event(&self) -> DeliveryId {
        let batch = derived(&*self.store, self.type_id, 1).await;
        event_of(&*self.store, batch.id).await.id
    }

    /// Something for the receiver.
    pub(crate) fn message(&self, key: &str) -> NewDelivery {
        NewDelivery {
            receiver: self.receiver,
            key: key.to_owned(),
            subject: "batch.completed".to_owned(),
            body: format!(r#"{{"key": "{key}"}}"#),
        }
    }

    /// Puts deliveries on record, due at a time.
    pub(crate) async fn put_all(&self, keys: impl IntoIterator<Item = String>, seconds: i64) {
        let deliveries: Vec<_> = keys.into_iter().map(|key| self.message(&key)).collect();
        let event = self.event().await;
        assert!(self.store.route_event(event, &deliveries, at(seconds)).await.unwrap());
    }

    /// Puts a delivery on record, due at a time.
    pub(crate) async fn put(&self, key: &str, seconds: i64) {
        self.put_all([key.to_owned()], seconds).await;
    }

    /// Whose deliveries are wanted, and how many.
    pub(crate) fn wanted(&self, limit: usize) -> Wanted {
        Wanted { receiver: self.receiver, tenant: self.tenant.clone(), limit, ordered: false }
    }

    /// Claims at most so many.
    pub(crate) async fn claim(&self, limit: usize, seconds: i64) -> Vec<Delivery> {
        claim(&*self.store, &[self.wanted(limit)], seconds).await
    }

    /// Claims the one delivery that is due.
    pub(crate) async fn claim_one(&self, seconds: i64) -> Delivery {
        let mut claimed = self.claim(10, seconds).await;
        assert_eq!(claimed.len(), 1, "{claimed:?}");
        claimed.remove(0)
    }

    /// Settles an attempt that began a second before.
    pub(crate) async fn settle(&self, delivery: &Delivery, next: Next, seconds: i64) -> bool {
        settle(&*self.store, &[outcome(delivery, seconds - 1, next)], seconds).await == [true]
    }

    /// Claims the one delivery that is due, and settles it at once.
    pub(crate) async fn bring(&self, next: Next, seconds: i64) -> DeliveryId {
        let delivery = self.claim_one(seconds).await;
        assert!(self.settle(&delivery, next, seconds).await);
        delivery.id
    }

    /// Which deliveries are meant: all of the receiver.
    pub(crate) fn filter(&self) -> DeliveryFilter {
        let (tenant, receiver) = (self.tenant.clone(), self.receiver);
        DeliveryFilter { tenant, receiver, state: None, before: None, limit: 10_000 }
    }

    /// All deliveries to the receiver, the latest first.
    pub(crate) async fn list(&self) -> Vec<DeliveryRecord> {
        self.store.deliveries(&self.filter()).await.unwrap()
    }

    /// A delivery with its failed attempts.
    pub(crate) async fn look(&self, id: DeliveryId) -> (DeliveryRecord, Vec<Attempt>) {
        self.store.delivery(id).await.unwrap().expect("it is on record")
    }
}

/// Claims what is wanted for the usual time.
pub(crate) async fn claim(store: &dyn Store, wanted: &[Wanted], seconds: i64) -> Vec<Delivery> {
    let until: Timestamp = at(seconds + CLAIM_SECONDS);
    store.claim_deliveries(wanted, at(seconds), until).await.unwrap()
}

/// Settles attempts, and says for which that counted.
pub(crate) async fn settle(store: &dyn Store, outcomes: &[Outcome], seconds: i64) -> Vec<bool> {
    store.settle_deliveries(outcomes, at(seconds)).await.unwrap()
}
