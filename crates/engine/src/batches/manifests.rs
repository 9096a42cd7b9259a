//! What the files of batches came to, on record.

use storage::{BatchId, Manifest};

use super::{BatchError, Batches};

impl Batches {
    /// The manifest of a batch, if it was worked out before.
    pub async fn manifest(&self, batch: BatchId) -> Result<Option<Manifest>, BatchError> {
        Ok(self.store.manifest(batch).await?)
    }

    /// Puts a manifest on record. The first one of a batch stays.
    pub async fn keep_manifest(
        &self,
        batch: BatchId,
        manifest: &Manifest,
    ) -> Result<(), BatchError> {
        Ok(self.store.keep_manifest(batch, manifest).await?)
    }
}
