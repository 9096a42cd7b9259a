//! Manifests of batches.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use storage::{BatchId, Manifest, ManifestStore, Result};

use crate::SqliteStore;
use crate::error::StepResult;
use crate::time::Millis;

fn find(connection: &Connection, batch: BatchId) -> StepResult<Option<Manifest>> {
    let found = connection
        .prepare_cached("SELECT * FROM manifests WHERE batch = ?1")?
        .query_one([batch.0], |row| {
            Ok(Manifest {
                file: row.get("file")?,
                ends: row.get("ends")?,
                bytes: row.get("bytes")?,
                sha256: row.get("sha256")?,
                at: row.get::<_, Millis>("at")?.0,
            })
        })
        .optional()?;
    Ok(found)
}

fn keep(connection: &Connection, batch: BatchId, manifest: &Manifest) -> StepResult<()> {
    let Manifest { file, ends, bytes, sha256, at } = manifest;
    connection
        .prepare_cached(
            "INSERT INTO manifests (batch, file, ends, bytes, sha256, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (batch) DO NOTHING",
        )?
        .execute(params![batch.0, file, ends, bytes, sha256, Millis(*at)])?;
    Ok(())
}

#[async_trait]
impl ManifestStore for SqliteStore {
    async fn manifest(&self, batch: BatchId) -> Result<Option<Manifest>> {
        self.readers.run(move |connection| find(connection, batch)).await
    }

    async fn keep_manifest(&self, batch: BatchId, manifest: &Manifest) -> Result<()> {
        let manifest = manifest.clone();
        self.writer.run(move |connection| keep(connection, batch, &manifest)).await
    }
}
