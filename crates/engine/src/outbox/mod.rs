//! The outbox: delivers what has to reach a receiver, however often it takes.

mod attempt;
mod breaker;
mod carrier;
mod receivers;
mod relay;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use storage::{Attempt, DeliveryFilter, DeliveryId, DeliveryRecord, StoreError, Verdict};
use tokio::sync::Notify;

pub use self::carrier::{Carrier, Letter, Reply};
pub(crate) use self::receivers::label;
pub use self::receivers::{LiveReceiver, Receivers};
pub(crate) use self::relay::Relay;

use crate::backoff::Backoff;
use crate::surroundings::Common;

/// Settings of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct OutboxSettings {
    /// Longest time of one attempt.
    pub timeout: Duration,
    /// Attempts at the same receiver at the same time.
    pub at_once: usize,
    /// When what failed is tried again.
    pub backoff: Backoff,
    /// How long what was delivered stays on record.
    pub keep: Duration,
}

/// Entries that one sweep of old deliveries removes from each shard.
const FORGET_AT_ONCE: usize = 10_000;

/// What deliveries are made with.
pub struct Outbox {
    common: Common,
    carrier: Arc<dyn Carrier>,
    settings: OutboxSettings,
    /// Whom to deliver to.
    pub receivers: Arc<Receivers>,
    /// Wakes the relay of this instance.
    wake: Notify,
}

impl Outbox {
    pub(crate) fn new(
        common: Common,
        carrier: Arc<dyn Carrier>,
        receivers: Arc<Receivers>,
        settings: OutboxSettings,
    ) -> Arc<Self> {
        Arc::new(Self { common, carrier, settings, receivers, wake: Notify::new() })
    }

    /// Says that there is something to deliver.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Deliveries to a receiver, the latest first.
    pub async fn deliveries(
        &self,
        filter: &DeliveryFilter,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        self.common.store.deliveries(filter).await
    }

    /// A delivery with its receiver and its failed attempts, as far as one tenant may see it; none is
    /// every tenant.
    pub async fn find(
        &self,
        id: DeliveryId,
        tenant: Option<&str>,
    ) -> Result<Option<(DeliveryRecord, Vec<Attempt>, Arc<LiveReceiver>)>, StoreError> {
        let Some((record, attempts)) = self.common.store.delivery(id).await? else {
            return Ok(None);
        };
        let receiver = self.receivers.by_id(record.content.receiver);
        let visible = |live: &Arc<LiveReceiver>| tenant.is_none_or(|own| own == live.tenant());
        Ok(receiver.filter(visible).map(|receiver| (record, attempts, receiver)))
    }

    /// Delivers again, or gives up. False where there is nothing to change.
    pub async fn decide(&self, id: DeliveryId, verdict: Verdict) -> Result<bool, StoreError> {
        let changed = self.common.store.decide_delivery(id, verdict, self.common.now()).await?;
        self.wake();
        Ok(changed)
    }

    /// Forgets what was delivered long ago.
    pub(crate) async fn forget_old(&self) -> Result<(), StoreError> {
        let keep = SignedDuration::try_from(self.settings.keep).unwrap_or(SignedDuration::MAX);
        let Ok(before) = self.common.now().checked_sub(keep) else { return Ok(()) };
        while self.common.store.forget_deliveries(before, FORGET_AT_ONCE).await? > 0 {}
        Ok(())
    }
}
