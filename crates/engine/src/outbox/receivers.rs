//! The receivers that this instance knows.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use storage::{Purpose, Receiver, ReceiverId, StoreError};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::warn;

use crate::documents::StoredSink;
use crate::error::AdminError;
use crate::outbox::OpenBucket;
use crate::outbox::load::Load;
use crate::outbox::secrets::Secret;
use crate::sealing::MasterKey;
use crate::surroundings::Common;
use crate::webhooks::StoredWebhook;

/// A receiver at work.
pub struct LiveReceiver {
    stored: Receiver,
    pub(crate) target: Target,
    /// What its messages are signed with, the latest first.
    pub(crate) secrets: Vec<Secret>,
    /// A sink that is a bucket.
    pub(super) bucket: Option<OpenBucket>,
    pub(super) load: Arc<Load>,
    /// Whether it was deleted. What others have put on record for it meanwhile is dead.
    gone: AtomicBool,
}

/// What a receiver is.
pub(crate) enum Target {
    Webhook(StoredWebhook),
    Sink(StoredSink),
}

impl LiveReceiver {
    /// As it is stored.
    pub fn stored(&self) -> &Receiver {
        &self.stored
    }

    /// Its number.
    pub fn id(&self) -> ReceiverId {
        self.stored.id
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.stored.receiver.tenant
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.stored.receiver.name
    }

    /// Whether deliveries are made to it.
    pub(crate) fn is_in_use(&self) -> bool {
        self.stored.disabled.is_none()
    }

    /// Whether it was deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn new(stored: Receiver, load: Arc<Load>, master_key: &MasterKey) -> Result<Self, AdminError> {
        let (purpose, settings) = (stored.receiver.purpose, &stored.receiver.settings);
        let label = label(purpose, &stored.receiver.tenant, &stored.receiver.name);
        let corrupt = |error| StoreError::Corrupt(format!("{label}: {error}"));
        let target = match purpose {
            Purpose::Webhook => Target::Webhook(serde_json::from_str(settings).map_err(corrupt)?),
            Purpose::Sink => Target::Sink(serde_json::from_str(settings).map_err(corrupt)?),
        };
        let sealed = match &target {
            Target::Webhook(webhook) => &webhook.secrets,
            Target::Sink(sink) => &sink.secrets,
        };
        let secrets = sealed.open(&label, master_key);
        let secrets = secrets.map_err(|_| AdminError::MasterKey(label.clone()))?;
        let bucket = match &target {
            Target::Sink(sink) => sink.open_bucket(&label, master_key)?,
            Target::Webhook(_) => None,
        };
        Ok(Self { stored, target, secrets, bucket, load, gone: AtomicBool::new(false) })
    }
}

/// What a secret is sealed with, so that nobody can swap those of two receivers in the store.
pub(crate) fn label(purpose: Purpose, tenant: &str, name: &str) -> String {
    format!("{} {tenant}/{name}", purpose.name())
}

/// How long deliveries are looked for that came too late for a receiver. Longer than an instance takes to
/// hear of a change, and than a claim lasts.
const GONE_FOR: Duration = Duration::from_secs(600);

/// The receivers that this instance knows.
pub struct Receivers {
    common: Common,
    master_key: Arc<MasterKey>,
    all: ArcSwap<Vec<Arc<LiveReceiver>>>,
    /// Tenants with a sink that was left out, because it cannot be put to use as it is stored.
    incomplete: ArcSwap<HashSet<String>>,
    /// Those that were deleted lately, and since when that is known.
    gone: ArcSwap<Vec<(Instant, Arc<LiveReceiver>)>>,
    /// The version of the store's catalogue up to which changes by others are known.
    version: AtomicU64,
    /// Changes are made one at a time, so that what is in memory follows what is stored.
    changing: Mutex<()>,
}

impl Receivers {
    pub(crate) async fn load(
        common: &Common,
        master_key: Arc<MasterKey>,
    ) -> Result<Arc<Self>, AdminError> {
        let (common, version) = (common.clone(), AtomicU64::new(u64::MAX));
        let (all, incomplete, gone) = (ArcSwap::default(), ArcSwap::default(), ArcSwap::default());
        let changing = Mutex::default();
        let receivers = Self { common, master_key, all, incomplete, gone, version, changing };
        receivers.reload().await?;
        Ok(Arc::new(receivers))
    }

    /// Takes over what other instances have changed up to a version of the store's catalogue.
    pub(crate) async fn follow(&self, version: u64) -> Result<(), AdminError> {
        if version == self.version.load(Ordering::Acquire) {
            return Ok(());
        }
        let _one_at_a_time = self.change().await;
        self.reload().await?;
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    /// Whoever holds this is the only one here that makes a change.
    pub(crate) async fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Reads all of them again. One that cannot be put to use stays as it was, or is left out: it must not
    /// keep anybody else from theirs.
    pub(crate) async fn reload(&self) -> Result<(), AdminError> {
        let before = self.all.load();
        let mut all = Vec::with_capacity(before.len());
        let mut incomplete = HashSet::new();
        for stored in self.common.store.list_receivers().await? {
            let known = before.iter().find(|live| live.id() == stored.id);
            if let Some(live) = known.filter(|live| live.stored == stored) {
                all.push(Arc::clone(live));
                continue;
            }
            let load = known.map_or_else(Arc::default, |live| Arc::clone(&live.load));
            let is_sink = stored.receiver.purpose == Purpose::Sink;
            let tenant = stored.receiver.tenant.clone();
            match LiveReceiver::new(stored, load, &self.master_key) {
                Ok(live) => all.push(Arc::new(live)),
                Err(problem) => {
                    warn!("a receiver cannot be put to use as it is stored: {problem}");
                    all.extend(known.cloned());
                    if is_sink && known.is_none() {
                        incomplete.insert(tenant);
                    }
                }
            }
        }
        self.note_gone(&before, &all);
        self.incomplete.store(Arc::new(incomplete));
        self.all.store(Arc::new(all));
        Ok(())
    }

    /// Notes which receivers were deleted. Instances that had not heard of it may have put deliveries on
    /// record for them.
    fn note_gone(&self, before: &[Arc<LiveReceiver>], now: &[Arc<LiveReceiver>]) {
        let is_gone = |live: &&Arc<LiveReceiver>| now.iter().all(|other| other.id() != live.id());
        let mut gone: Vec<_> = self.gone.load().to_vec();
        gone.retain(|(since, _)| since.elapsed() < GONE_FOR);
        for live in before.iter().filter(is_gone) {
            live.gone.store(true, Ordering::Release);
            gone.push((Instant::now(), Arc::clone(live)));
        }
        self.gone.store(Arc::new(gone));
    }

    /// Those that were deleted lately.
    pub(super) fn gone(&self) -> Vec<Arc<LiveReceiver>> {
        let gone = self.gone.load();
        let lately = gone.iter().filter(|(since, _)| since.elapsed() < GONE_FOR);
        lately.map(|(_, live)| Arc::clone(live)).collect()
    }

    /// Whether a tenant has a sink that was left out, so that nobody knows which types it is for.
    pub(crate) fn is_incomplete(&self, tenant: &str) -> bool {
        self.incomplete.load().contains(tenant)
    }

    /// Every receiver, oldest first.
    pub fn all(&self) -> Arc<Vec<Arc<LiveReceiver>>> {
        self.all.load_full()
    }

    /// Every receiver for a purpose that a tenant may see, by tenant and name; none is every tenant.
    pub fn list(&self, purpose: Purpose, tenant: Option<&str>) -> Vec<Arc<LiveReceiver>> {
        let visible = |live: &&Arc<LiveReceiver>| {
            live.stored.receiver.purpose == purpose && tenant.is_none_or(|own| own == live.tenant())
        };
        let mut found: Vec<_> = self.all.load().iter().filter(visible).cloned().collect();
        found.sort_by(|a, b| (a.tenant(), a.name()).cmp(&(b.tenant(), b.name())));
        found
    }

    /// One of a tenant.
    pub fn find(
        &self,
        purpose: Purpose,
        tenant: &str,
        name: &str,
    ) -> Result<Arc<LiveReceiver>, AdminError> {
        let matches = |live: &&Arc<LiveReceiver>| {
            let receiver = &live.stored.receiver;
            receiver.purpose == purpose && receiver.tenant == tenant && receiver.name == name
        };
        let found = self.all.load().iter().find(matches).cloned();
        found.ok_or(AdminError::NotFound(purpose.name()))
    }

    /// One by its number.
    pub(crate) fn by_id(&self, id: ReceiverId) -> Option<Arc<LiveReceiver>> {
        self.all.load().iter().find(|live| live.id() == id).cloned()
    }

    /// One by its number, as it is now stored.
    pub(crate) async fn read_back(&self, id: ReceiverId) -> Result<Arc<LiveReceiver>, AdminError> {
        self.reload().await?;
        self.by_id(id).ok_or(AdminError::Store(StoreError::NotFound("receiver")))
    }

    /// Delivers nothing to a receiver any more, because it said so; unless it was changed since, and so
    /// the one that said it is not the one that is meant now.
    pub(crate) async fn disable(&self, live: &LiveReceiver, reason: &str) {
        let _one_at_a_time = self.change().await;
        if let Err(problem) = self.reload().await {
            warn!("cannot read the receivers again: {problem}");
            return;
        }
        let now = self.by_id(live.id());
        if now.is_none_or(|now| now.stored.revision != live.stored.revision) {
            return;
        }
        let now = self.common.now();
        let disabled = self.common.store.disable_receiver(live.id(), reason, now).await;
        let name = live.name();
        match disabled {
            Ok(true) => {
                warn!(receiver = name, "{name} is disabled: {reason}");
                if let Err(problem) = self.reload().await {
                    warn!("cannot read the receivers again: {problem}");
                }
            }
            Ok(false) => {}
            Err(problem) => warn!(receiver = name, "cannot disable {name}: {problem}"),
        }
    }
}
