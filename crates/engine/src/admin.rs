//! Changes that administrators make. Each one runs to its end, whatever becomes of who asked for it.

use std::sync::Arc;

use idgen::spec::IdType;
use storage::{Removal, StoreError, TenantLimits};

use crate::catalogue::Put;
use crate::documents::{PutSink, SinkOrder};
use crate::engine::Engine;
use crate::error::AdminError;
use crate::keys::{KeyOrder, LiveKey};
use crate::outbox::LiveReceiver;
use crate::webhooks::{PutWebhook, WebhookOrder};

impl Engine {
    /// Makes a type or changes it.
    pub async fn put_type(self: &Arc<Self>, id_type: IdType) -> Result<Put, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.catalogue.put_type(&id_type).await }).await
    }

    /// Deletes or retires a type.
    pub async fn remove_type(
        self: &Arc<Self>,
        tenant: String,
        name: String,
    ) -> Result<Removal, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.catalogue.remove_type(&tenant, &name).await }).await
    }

    /// Makes a tenant or changes its limits.
    pub async fn put_tenant(
        self: &Arc<Self>,
        name: String,
        limits: TenantLimits,
    ) -> Result<Put, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move {
            let put = engine.catalogue.put_tenant(&name, limits).await?;
            engine.keys.set_tenant_rates(&engine.catalogue.tenants());
            Ok(put)
        })
        .await
    }

    /// Deletes a tenant without types, webhooks and sinks.
    pub async fn remove_tenant(self: &Arc<Self>, name: String) -> Result<(), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move {
            let has_sinks = !engine.documents.sinks.list(Some(&name)).is_empty();
            if has_sinks || !engine.webhooks.list(Some(&name)).is_empty() {
                return Err(AdminError::InUse);
            }
            engine.catalogue.remove_tenant(&name).await?;
            engine.keys.set_tenant_rates(&engine.catalogue.tenants());
            Ok(())
        })
        .await
    }

    /// Makes a webhook or changes it.
    pub async fn put_webhook(
        self: &Arc<Self>,
        order: WebhookOrder,
    ) -> Result<PutWebhook, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.webhooks.put(order).await }).await
    }

    /// Gives a webhook a new secret, which is shown once and never again.
    pub async fn rotate_webhook(
        self: &Arc<Self>,
        tenant: String,
        name: String,
        overlap_hours: u32,
    ) -> Result<(Arc<LiveReceiver>, String), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.webhooks.rotate(&tenant, &name, overlap_hours).await }).await
    }

    /// Deletes a webhook.
    pub async fn remove_webhook(
        self: &Arc<Self>,
        tenant: String,
        name: String,
    ) -> Result<(), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.webhooks.remove(&tenant, &name).await }).await
    }

    /// Makes a sink or changes it.
    pub async fn put_sink(self: &Arc<Self>, order: SinkOrder) -> Result<PutSink, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.documents.sinks.put(order).await }).await
    }

    /// Deletes a sink to which nothing has to be delivered any more.
    pub async fn remove_sink(
        self: &Arc<Self>,
        tenant: String,
        name: String,
    ) -> Result<(), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.documents.sinks.remove(&tenant, &name).await }).await
    }

    /// Makes an API key. The token is shown once and is never stored.
    pub async fn create_key(
        self: &Arc<Self>,
        order: KeyOrder,
    ) -> Result<(Arc<LiveKey>, String), AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.keys.create(order).await }).await
    }

    /// Revokes an API key by its public part. False if it was revoked before.
    pub async fn revoke_key(self: &Arc<Self>, short: String) -> Result<bool, AdminError> {
        let engine = Arc::clone(self);
        to_the_end(async move { engine.keys.revoke(&short).await }).await
    }
}

/// Runs a change in a task of its own. A client that goes away in the middle must not leave what is
/// in memory and what is stored different.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, AdminError>> + Send + 'static,
) -> Result<T, AdminError> {
    tokio::spawn(change).await.unwrap_or_else(|_| {
        let reason = "the change was interrupted".to_owned();
        Err(AdminError::Store(StoreError::Unavailable(reason)))
    })
}
