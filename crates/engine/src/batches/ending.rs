//! Batches that somebody stops, or whose codes somebody makes void. Who and why is in the audit log first.

use std::sync::Arc;

use serde_json::{Value, json};
use storage::{Batch, BatchId, BatchState, StoreError};

use super::{BatchError, Batches};
use crate::LiveType;
use crate::audit::Doing;

impl Batches {
    /// Stops a batch; with a reason, what was made is void from the same moment on.
    pub async fn cancel(
        &self,
        id: BatchId,
        tenant: Option<&str>,
        key_id: i64,
        void_reason: Option<&str>,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        let (batch, live) = self.find(id, tenant).await?;
        if batch.state == BatchState::Completed {
            return Err(BatchError::Ended(batch.state));
        }
        let detail = json!({"void_reason": void_reason});
        self.note("batch.cancelled", id, &live, key_id, &detail).await?;
        let batch = self.store.cancel_batch(id, void_reason, self.now()).await?;
        let batch = batch.ok_or(BatchError::NotFound)?;
        // The last chunk may have been faster. Then nothing has changed, and nothing is void.
        if batch.state != BatchState::Cancelled {
            return Err(BatchError::Ended(batch.state));
        }
        self.news.notify_one();
        if void_reason.is_some() {
            self.codes.recalled().await;
        }
        Ok((batch, live))
    }

    /// Makes all codes of a batch void.
    pub async fn recall(
        &self,
        id: BatchId,
        tenant: Option<&str>,
        key_id: i64,
        reason: &str,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        let (_, live) = self.find(id, tenant).await?;
        self.note("batch.recalled", id, &live, key_id, &json!({"reason": reason})).await?;
        let batch = self.store.recall_batch(id, reason, self.now()).await?;
        self.codes.recalled().await;
        Ok((batch.ok_or(BatchError::NotFound)?, live))
    }

    async fn note(
        &self,
        action: &'static str,
        id: BatchId,
        live: &LiveType,
        key_id: i64,
        detail: &Value,
    ) -> Result<(), StoreError> {
        let tenant = live.stored().id_type.tenant();
        let doing = Doing { key_id, tenant, action, subject: &id.0.to_string() };
        self.audit.record(doing, detail.to_string()).await
    }
}
