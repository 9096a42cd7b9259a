//! Webhooks: tell others what happened, by the Standard Webhooks specification.

mod events;
mod settings;
mod signing;

use std::sync::Arc;
use std::time::Duration;

use idgen::key::TypeKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use storage::{Delivery, DeliveryId, NewDelivery, NewReceiver, Purpose, ReceiverId, StoreError};
use tokio::time::{Instant, timeout};

pub(crate) use self::events::EventRouter;
pub use self::settings::EventKind;
pub(crate) use self::settings::{Secret, StoredWebhook};

use crate::catalogue::{Catalogue, Put};
use crate::error::AdminError;
use crate::outbox::{Carrier, Letter, LiveReceiver, Receivers, label};
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
    /// What a person may see.
    pub fn view(&self, now: Timestamp) -> WebhookView {
        let old = self.secrets.iter().filter(|secret| secret.is_in_force(now));
        WebhookView {
            url: self.webhook.url.clone(),
            events: self.webhook.events.clone(),
            old_secrets_expire_at: old.filter_map(|secret| secret.expires_at).collect(),
        }
    }
}

/// A delivery as it is sent: every secret that is in force signs it.
pub(crate) fn letter(receiver: &LiveReceiver, delivery: &Delivery, now: Timestamp) -> Letter {
    let NewDelivery { key, body, .. } = &delivery.content;
    let in_force = receiver.secrets.iter().filter(|secret| secret.is_in_force(now));
    let headers = signing::headers(key, now, body, in_force.map(|secret| &secret.key));
    Letter { url: receiver.webhook.url.clone(), headers, body: body.clone() }
}

impl Webhooks {
    /// Every webhook that a tenant may see, by name; none is every tenant.
    pub fn list(&self, tenant: Option<&str>) -> Vec<Arc<LiveReceiver>> {
        let all = self.receivers.all();
        let visible = all.iter().filter(|live| {
            live.stored().receiver.purpose == Purpose::Webhook
                && tenant.is_none_or(|own| own == live.tenant())
        });
        let mut webhooks: Vec<_> = visible.cloned().collect();
        webhooks.sort_by(|a, b| (a.tenant(), a.name()).cmp(&(b.tenant(), b.name())));
        webhooks
    }

    /// One of a tenant.
    pub fn find(&self, tenant: &str, name: &str) -> Result<Arc<LiveReceiver>, AdminError> {
        let found = self.receivers.find(Purpose::Webhook, tenant, name);
        found.ok_or(AdminError::NotFound("webhook"))
    }

    /// Makes a webhook, or changes it and puts it to use again. Its secrets stay.
    pub(crate) async fn put(&self, order: WebhookOrder) -> Result<PutWebhook, AdminError> {
        let WebhookOrder { tenant, name, url, events } = order;
        idgen::spec::valid_name("name", &name)?;
        self.carrier.check(&url).map_err(AdminError::Refused)?;
        if self.catalogue.tenant(&tenant).is_none() {
            self.catalogue.put_tenant(&tenant, None).await?;
        }
        let _one_at_a_time = self.receivers.change().await;
        self.receivers.reload().await?;
        if let Ok(known) = self.find(&tenant, &name) {
            let webhook = StoredWebhook { url, events, ..known.webhook.clone() };
            let webhook = self.change(&known, &webhook).await?;
            return Ok(PutWebhook { put: Put::Kept, webhook, secret: None });
        }
        if self.list(Some(&tenant)).len() >= PER_TENANT_MAX {
            let reason = format!("the tenant has {PER_TENANT_MAX} webhooks, which is the most");
            return Err(AdminError::Refused(reason));
        }
        let mut webhook = StoredWebhook { url, events, secrets: Vec::new() };
        let secret = self.add_secret(&mut webhook, &tenant, &name, SignedDuration::ZERO);
        let settings = as_text(&webhook);
        let receiver = NewReceiver { tenant, purpose: Purpose::Webhook, name, settings };
        let created = self.common.store.create_receiver(&receiver, self.common.now()).await?;
        let webhook = self.read_back(created.id).await?;
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
        let mut webhook = known.webhook.clone();
        let overlap = SignedDuration::from_hours(overlap_hours.into());
        let secret = self.add_secret(&mut webhook, tenant, name, overlap);
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
        let (id, attempt, token) = (DeliveryId(0), 1, 0);
        let delivery = Delivery { id, content, attempt, token, created_at: now };
        let began = Instant::now();
        let sent = timeout(self.timeout, self.carrier.post(letter(webhook, &delivery, now))).await;
        let (status, error) = match sent {
            Ok(Ok(reply)) if (200..300).contains(&reply.status) => (Some(reply.status), None),
            Ok(Ok(reply)) => (Some(reply.status), Some(format!("the answer was {}", reply.status))),
            Ok(Err(problem)) => (None, Some(problem)),
            Err(_) => (None, Some(format!("no answer within {:?}", self.timeout))),
        };
        Trial { status, error, duration: began.elapsed() }
    }

    fn add_secret(
        &self,
        webhook: &mut StoredWebhook,
        tenant: &str,
        name: &str,
        keep_old: SignedDuration,
    ) -> TypeKey {
        let (label, now) = (label(tenant, name), self.common.now());
        webhook.add_secret(&label, keep_old, &self.master_key, &*self.common.entropy, now)
    }

    async fn change(
        &self,
        known: &LiveReceiver,
        webhook: &StoredWebhook,
    ) -> Result<Arc<LiveReceiver>, AdminError> {
        let revision = known.stored().revision;
        self.common.store.change_receiver(known.id(), revision, &as_text(webhook)).await?;
        self.read_back(known.id()).await
    }

    async fn read_back(&self, id: ReceiverId) -> Result<Arc<LiveReceiver>, AdminError> {
        self.receivers.reload().await?;
        self.receivers.by_id(id).ok_or(AdminError::Store(StoreError::NotFound("webhook")))
    }
}

fn as_text(webhook: &StoredWebhook) -> String {
    serde_json::to_string(webhook).expect("settings are plain data")
}
