//! The receivers that this instance knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use storage::{Purpose, Receiver, ReceiverId, Store, StoreError};
use tokio::sync::{Mutex, MutexGuard};
use tracing::warn;

use crate::error::AdminError;
use crate::sealing::MasterKey;
use crate::surroundings::{Clock, Common};
use crate::webhooks::{Secret, StoredWebhook};

/// A receiver at work.
pub struct LiveReceiver {
    stored: Receiver,
    pub(crate) webhook: StoredWebhook,
    pub(crate) secrets: Vec<Secret>,
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

    fn new(stored: Receiver, master_key: &MasterKey) -> Result<Self, AdminError> {
        let label = label(&stored.receiver.tenant, &stored.receiver.name);
        let webhook: StoredWebhook = serde_json::from_str(&stored.receiver.settings)
            .map_err(|error| StoreError::Corrupt(format!("{label}: {error}")))?;
        let secrets = webhook.open_secrets(&label, master_key);
        let secrets = secrets.map_err(|_| AdminError::MasterKey(label))?;
        Ok(Self { stored, webhook, secrets })
    }
}

/// What a secret is sealed with, so that nobody can swap those of two webhooks in the store.
pub(crate) fn label(tenant: &str, name: &str) -> String {
    format!("webhook {tenant}/{name}")
}

/// The receivers that this instance knows.
pub struct Receivers {
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    master_key: Arc<MasterKey>,
    all: ArcSwap<Vec<Arc<LiveReceiver>>>,
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
        let Common { store, clock, .. } = common.clone();
        let (all, version) = (ArcSwap::default(), AtomicU64::new(u64::MAX));
        let receivers = Self { store, clock, master_key, all, version, changing: Mutex::default() };
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

    /// Reads all of them again.
    pub(crate) async fn reload(&self) -> Result<(), AdminError> {
        let before = self.all.load();
        let mut all = Vec::with_capacity(before.len());
        for stored in self.store.list_receivers().await? {
            let known = before.iter().find(|live| live.stored == stored);
            all.push(match known {
                Some(live) => Arc::clone(live),
                None => Arc::new(LiveReceiver::new(stored, &self.master_key)?),
            });
        }
        self.all.store(Arc::new(all));
        Ok(())
    }

    /// Every receiver, oldest first.
    pub fn all(&self) -> Arc<Vec<Arc<LiveReceiver>>> {
        self.all.load_full()
    }

    /// One of a tenant.
    pub fn find(&self, purpose: Purpose, tenant: &str, name: &str) -> Option<Arc<LiveReceiver>> {
        let matches = |live: &&Arc<LiveReceiver>| {
            let receiver = &live.stored.receiver;
            receiver.purpose == purpose && receiver.tenant == tenant && receiver.name == name
        };
        self.all.load().iter().find(matches).cloned()
    }

    /// One by its number.
    pub(crate) fn by_id(&self, id: ReceiverId) -> Option<Arc<LiveReceiver>> {
        self.all.load().iter().find(|live| live.id() == id).cloned()
    }

    /// Delivers nothing to a receiver any more, because it said so; unless it was changed since, and so
    /// the one that said it is not the one that is meant now.
    pub(crate) async fn disable(&self, live: &LiveReceiver, reason: &str) {
        let _one_at_a_time = self.change().await;
        if let Err(problem) = self.reload().await {
            warn!("cannot read the webhooks again: {problem}");
            return;
        }
        let now = self.by_id(live.id());
        if now.is_none_or(|now| now.stored.revision != live.stored.revision) {
            return;
        }
        let disabled = self.store.disable_receiver(live.id(), reason, self.clock.now()).await;
        let name = live.name();
        match disabled.map_err(AdminError::from) {
            Ok(true) => {
                warn!(webhook = name, "webhook {name} is disabled: {reason}");
                if let Err(problem) = self.reload().await {
                    warn!("cannot read the webhooks again: {problem}");
                }
            }
            Ok(false) => {}
            Err(problem) => warn!(webhook = name, "cannot disable webhook {name}: {problem}"),
        }
    }
}
