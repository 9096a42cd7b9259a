//! The outbox: delivers what has to reach a receiver, however often it takes.

mod attempt;
mod breaker;
mod buckets;
mod carrier;
mod late;
mod load;
mod receivers;
mod relay;
pub(crate) mod secrets;
pub(crate) mod signing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use storage::{
    Attempt, Delivery, DeliveryFilter, DeliveryId, DeliveryRecord, Purpose, StoreError, Verdict,
};
use tokio::sync::{Notify, Semaphore};

pub(crate) use self::attempt::letter;
pub use self::buckets::BucketPlace;
pub(crate) use self::buckets::OpenBucket;
pub use self::carrier::{Carrier, Letter, Method, NewFile, Reply, WriteOrder};
pub(crate) use self::load::Freight;
pub use self::receivers::{LiveReceiver, Receivers};
pub(crate) use self::receivers::{Target, label};
pub(crate) use self::relay::Relay;

use crate::backoff::Backoff;
use crate::surroundings::Common;

/// Settings of deliveries.
#[derive(Debug, Clone, Copy)]
pub struct OutboxSettings {
    /// Of what happened, to webhooks.
    pub webhooks: DeliverySettings,
    /// Of documents, to sinks.
    pub documents: DeliverySettings,
    /// How long what webhooks were told stays on record.
    pub keep: Duration,
}

/// Settings of deliveries of one kind.
#[derive(Debug, Clone, Copy)]
pub struct DeliverySettings {
    /// Longest time of one attempt.
    pub timeout: Duration,
    /// Deliveries to the same receiver that an instance has under way.
    pub at_once: usize,
    /// When what failed is tried again.
    pub backoff: Backoff,
}

/// Entries that one sweep of old deliveries removes from each shard.
const FORGET_AT_ONCE: usize = 10_000;

/// What an instance has beyond the longest attempt to write down how it went.
const CLAIM_MARGIN: Duration = Duration::from_secs(30);

/// What deliveries are made with.
pub struct Outbox {
    common: Common,
    carrier: Arc<dyn Carrier>,
    settings: OutboxSettings,
    /// Whom to deliver to.
    pub receivers: Arc<Receivers>,
    /// Wakes the relay of this instance.
    wake: Notify,
    /// Whether something may be due that nobody has claimed.
    unclaimed: AtomicBool,
    /// Deliveries that are claimed already, by whoever has put them on record.
    handed_over: Mutex<Vec<Delivery>>,
    /// For attempts that take longer than they have.
    late: Arc<Semaphore>,
}

impl Outbox {
    pub(crate) fn new(
        common: Common,
        carrier: Arc<dyn Carrier>,
        receivers: Arc<Receivers>,
        settings: OutboxSettings,
    ) -> Arc<Self> {
        let (wake, handed_over) = (Notify::new(), Mutex::default());
        let unclaimed = AtomicBool::new(true);
        let late = Arc::new(Semaphore::new(late::LATE_AT_ONCE));
        Arc::new(Self { common, carrier, settings, receivers, wake, unclaimed, handed_over, late })
    }

    /// Says that there is something to deliver that nobody has claimed.
    pub(crate) fn wake(&self) {
        self.unclaimed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn settings(&self, purpose: Purpose) -> DeliverySettings {
        match purpose {
            Purpose::Webhook => self.settings.webhooks,
            Purpose::Sink => self.settings.documents,
        }
    }

    /// Until when somebody who puts so much on record may claim them for this instance at the
    /// same time; none if there is no room, or if others have to come first.
    pub(crate) fn claim_ahead(
        &self,
        receiver: &LiveReceiver,
        freight: Freight,
    ) -> Option<Timestamp> {
        let settings = self.settings(receiver.stored().receiver.purpose);
        let load = &receiver.load;
        let allowed = receiver.is_in_use() && !receiver.is_ordered() && !load.is_resting();
        (allowed && load.try_enter(freight, settings.at_once)).then(|| self.claim_end(settings))
    }

    /// Gives room back that was not needed after all.
    pub(crate) fn leave(receiver: &LiveReceiver, freight: Freight) {
        receiver.load.leave(freight);
    }

    /// Delivers what was claimed ahead.
    pub(crate) fn hand_over(&self, deliveries: Vec<Delivery>) {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner).extend(deliveries);
        self.wake.notify_one();
    }

    fn take_handed_over(&self) -> Vec<Delivery> {
        std::mem::take(&mut *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn claim_end(&self, settings: DeliverySettings) -> Timestamp {
        let time = SignedDuration::try_from(settings.timeout + CLAIM_MARGIN);
        let end = self.common.now().checked_add(time.unwrap_or(SignedDuration::MAX));
        end.unwrap_or(Timestamp::MAX)
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

    /// What a delivery sends.
    pub async fn body_of(&self, id: DeliveryId) -> Result<Option<String>, StoreError> {
        self.common.store.body_of(id).await
    }

    /// Delivers again, or gives up. False where there is nothing to change.
    pub async fn decide(&self, id: DeliveryId, verdict: Verdict) -> Result<bool, StoreError> {
        let now = self.common.now();
        let changed = self.common.store.decide_delivery(id, verdict, now).await?;
        self.wake();
        Ok(changed)
    }

    /// Forgets what webhooks were told long ago.
    pub(crate) async fn forget_old(&self) -> Result<(), StoreError> {
        let keep = SignedDuration::try_from(self.settings.keep).unwrap_or(SignedDuration::MAX);
        let Ok(before) = self.common.now().checked_sub(keep) else { return Ok(()) };
        while self.common.store.forget_deliveries(before, FORGET_AT_ONCE).await? > 0 {}
        Ok(())
    }
}
