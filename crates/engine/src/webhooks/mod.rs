//! Webhooks: tell others what happened, by the Standard Webhooks specification.

mod events;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use idgen::key::TypeKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use storage::{Delivery, DeliveryId, NewDelivery, NewReceiver, Purpose, TenantLimits};
use tokio::time::{Instant, timeout};

pub(crate) use self::events::EventRouter;
pub use self::settings::EventKind;
pub(crate) use self::settings::StoredWebhook;

use crate::catalogue::{Catalogue, Put};
use crate::error::AdminError;
use crate::outbox::secrets::SealedSecrets;
use crate::outbox::{Carrier, LiveReceiver, Receivers, Target, label, letter, signing};
use crate::sealing::MasterKey;
use crate::surroundings::Common;

/// Webhooks of one tenant. Each one that is subscribed is another delivery of every event.
const PER_TENANT_MAX: usize = 50;

/// How long the secret before stays in force, unless somebody says otherwise.
pub const OVERLAP_HOURS_DEFAULT: u32 = 24;

/// The webhooks.
pub struct Webhooks {
    pub(crate) common: Common,
    pub(crate) master_key: Arc<MasterKey>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) receivers: Arc<Receivers>,
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) timeout: Duration,
}

/// What a webhook is made from.
#[derive(Debug, Clone)]
pub struct WebhookOrder {
    /// Whose it is.
    pub tenant: String,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// What it wants to be told of.
    pub events: Vec<EventKind>,
}

/// A webhook that was put.
pub struct PutWebhook {
    /// Whether it is new.
    pub put: Put,
    /// The webhook.
    pub webhook: Arc<LiveReceiver>,
    /// The secret of a new one. It is shown once.
    pub secret: Option<String>,
}

/// How it went to try a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// What it answered.
    pub status: Option<u16>,
    /// Why there is no answer, or why it is none that counts.
    pub error: Option<String>,
    /// How long it took.
    pub duration: Duration,
}

/// What a person may see of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookView {
    /// Where it is.
    pub url: String,
    /// What it wants to be told of.
    pub events: Vec<EventKind>,
    /// When the secrets before the latest stop being used.
    pub old_secrets_expire_at: Vec<Timestamp>,
}

impl LiveReceiver {
    /// What a person may see, if this is a webhook.
    pub fn view(&self, now: Timestamp) -> Option<WebhookView> {
        let webhook = self.webhook()?;
        let old = self.secrets.iter().filter(|secret| secret.is_in_force(now));
        Some(WebhookView {
            url: webhook.url.clone(),
            events: webhook.events.clone(),
            old_secrets_expire_at: old.filter_map(|secret| secret.expires_at).collect(),
        })
    }

    /// What is stored, if this is a webhook.
    fn webhook(&self) -> Option<&StoredWebhook> {
        match &self.target {
            Target::Webhook(webhook) => Some(webhook),
            Target::Sink(_) => None,
        }
    }
}

impl Webhooks {
    /// Every webhook that a tenant may see, by name; none is every tenant.
    pub fn list(&self, tenant: Option<&str>) -> Vec<Arc<LiveReceiver>> {
        self.receivers.list(Purpose::Webhook, tenant)
    }

    /// One of a tenant.
    pub fn find(&self, tenant: &str, name: &str) -> Result<Arc<LiveReceiver>, AdminError> {
        self.receivers.find(Purpose::Webhook, tenant, name)
    }

    /// Makes a webhook, or changes it and puts it to use again. Its secrets stay.
    pub(crate) async fn put(&self, order: WebhookOrder) -> Result<PutWebhook, AdminError> {
        let WebhookOrder { tenant, name, url, events } = order;
        idgen::spec::valid_name("name", &name)?;
        self.carrier.check_address(&url).map_err(AdminError::Refused)?;
        if self.catalogue.tenant(&tenant).is_none() {
            self.catalogue.put_tenant(&tenant, TenantLimits::default()).await?;
        }
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        if let Ok(known) = self.find(&tenant, &name) {
            let secrets = secrets_of(&known);
            let webhook = self.change(&known, &StoredWebhook { url, events, secrets }).await?;
            return Ok(PutWebhook { put: Put::Kept, webhook, secret: None });
        }
        if self.list(Some(&tenant)).len() >= PER_TENANT_MAX {
            let reason = format!("the tenant has {PER_TENANT_MAX} webhooks, which is the most");
            return Err(AdminError::Refused(reason));
        }
        let mut webhook = StoredWebhook { url, events, secrets: SealedSecrets::default() };
        let keep = SignedDuration::ZERO;
        let secret = self.add_secret(&mut webhook.secrets, &tenant, &name, keep);
        let settings = as_text(&webhook);
        let receiver = NewReceiver { tenant, purpose: Purpose::Webhook, name, settings };
        let created = self.common.store.create_receiver(&receiver, self.common.now()).await?;
        let webhook = self.receivers.read_back(created.id).await?;
        Ok(PutWebhook { put: Put::Created, webhook, secret: Some(signing::shown(&secret)) })
    }

    /// Gives a webhook a new secret, which is shown once. Those before stay in force for a while.
    pub(crate) async fn rotate(
        &self,
        tenant: &str,
        name: &str,
        overlap_hours: u32,
    ) -> Result<(Arc<LiveReceiver>, String), AdminError> {
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        let known = self.find(tenant, name)?;
        let mut webhook = known.webhook().ok_or(AdminError::NotFound("webhook"))?.clone();
        let overlap = SignedDuration::from_hours(overlap_hours.into());
        let secret = self.add_secret(&mut webhook.secrets, tenant, name, overlap);
        let live = self.change(&known, &webhook).await?;
        Ok((live, signing::shown(&secret)))
    }

    /// Deletes a webhook and gives up what it was still to be told.
    pub(crate) async fn remove(&self, tenant: &str, name: &str) -> Result<(), AdminError> {
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        let (id, now) = (self.find(tenant, name)?.id(), self.common.now());
        // First, so that nothing is added while the rest is given up.
        self.common.store.disable_receiver(id, "it is being deleted", now).await?;
        self.common.store.abandon_deliveries(tenant, id, now).await?;
        self.common.store.remove_receiver(id).await?;
        self.receivers.reload().await
    }

    /// Sends a message of no consequence, once, and says how that went.
    pub async fn try_out(&self, webhook: &LiveReceiver) -> Trial {
        let mut chance = [0; 8];
        self.common.entropy.fill(&mut chance);
        let (now, kind) = (self.common.now(), EventKind::Test.name());
        let content = NewDelivery {
            receiver: webhook.id(),
            key: format!("evt_test_{}", u64::from_be_bytes(chance)),
            subject: kind.to_owned(),
            body: json!({"type": kind, "timestamp": now, "data": {"webhook": webhook.name()}})
                .to_string(),
        };
        let delivery = Delivery {
            id: DeliveryId(0),
            content,
            document: None,
            attempt: 1,
            failures: 0,
            token: 0,
            created_at: now,
        };
        let began = Instant::now();
        let send = async {
            let letter = letter(webhook, &delivery, now).ok_or("it has no address")?;
            self.carrier.post(letter).await
        };
        let sent = timeout(self.timeout, send).await;
        let (status, error) = match sent {
            Ok(Ok(reply)) if reply.is_success() => (Some(reply.status), None),
            Ok(Ok(reply)) => (Some(reply.status), Some(format!("the answer was {}", reply.status))),
            Ok(Err(problem)) => (None, Some(problem)),
            Err(_) => (None, Some(format!("no answer within {:?}", self.timeout))),
        };
        Trial { status, error, duration: began.elapsed() }
    }

    fn add_secret(
        &self,
        secrets: &mut SealedSecrets,
        tenant: &str,
        name: &str,
        keep_old: SignedDuration,
    ) -> TypeKey {
        let label = label(Purpose::Webhook, tenant, name);
        secrets.add(&label, keep_old, &self.master_key, &self.common)
    }

    async fn change(
        &self,
        known: &LiveReceiver,
        webhook: &StoredWebhook,
    ) -> Result<Arc<LiveReceiver>, AdminError> {
        let (id, revision) = (known.id(), known.stored().revision);
        self.common.store.change_receiver(id, revision, &as_text(webhook)).await?;
        self.receivers.read_back(id).await
    }
}

fn secrets_of(known: &LiveReceiver) -> SealedSecrets {
    known.webhook().map(|webhook| webhook.secrets.clone()).unwrap_or_default()
}

fn as_text(webhook: &StoredWebhook) -> String {
    serde_json::to_string(webhook).expect("settings are plain data")
}
