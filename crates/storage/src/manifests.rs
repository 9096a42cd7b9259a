//! Manifests: what the file of a batch came to.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{BatchId, Result};

/// What the file of a batch came to when it was first worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Which file: the format and the columns, as they are asked for.
    pub file: String,
    /// A digest of the ends of the file. Where those of today's file have another one, the file is no
    /// longer written as it was.
    pub ends: String,
    /// The size of the file.
    pub bytes: u64,
    /// The digest of the file.
    pub sha256: String,
    /// When it was worked out.
    pub at: Timestamp,
}

/// Remembers manifests.
#[async_trait]
pub trait ManifestStore {
    /// The manifest of a batch, if it is on record.
    async fn manifest(&self, batch: BatchId) -> Result<Option<Manifest>>;

    /// Puts the manifest of a batch on record. The first one stays.
    async fn keep_manifest(&self, batch: BatchId, manifest: &Manifest) -> Result<()>;
}
