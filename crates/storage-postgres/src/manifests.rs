//! Manifests. They are on the shard of their batch.

use async_trait::async_trait;
use storage::{BatchId, Manifest, ManifestStore, Result};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::Repeat;
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

const FIND: &str = "SELECT file, ends, bytes, sha256, at FROM manifests WHERE batch_id = $1";

const KEEP: &str = "
    INSERT INTO manifests (batch_id, file, ends, bytes, sha256, at)
    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (batch_id) DO NOTHING";

#[async_trait]
impl ManifestStore for PostgresStore {
    async fn manifest(&self, batch: BatchId) -> Result<Option<Manifest>> {
        let Some(shard) = self.shard_of_batch(batch) else { return Ok(None) };
        let rows = shard.query(Repeat::Always, FIND, &[(&batch.0, Type::INT8)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(Manifest {
            file: row.get("file"),
            ends: row.get("ends"),
            bytes: read_serial(row.get("bytes"))?,
            sha256: row.get("sha256"),
            at: row.get::<_, Time>("at").0,
        }))
    }

    async fn keep_manifest(&self, batch: BatchId, manifest: &Manifest) -> Result<()> {
        let Some(shard) = self.shard_of_batch(batch) else { return Ok(()) };
        let Manifest { file, ends, bytes, sha256, at } = manifest;
        let (bytes, at) = (write_count(*bytes), Time::new(*at));
        let params: [Param<'_>; 6] = [
            (&batch.0, Type::INT8),
            (file, Type::TEXT),
            (ends, Type::TEXT),
            (&bytes, Type::INT8),
            (sha256, Type::TEXT),
            (&at, Type::TIMESTAMPTZ),
        ];
        shard.query(Repeat::Always, KEEP, &params).await?;
        Ok(())
    }
}
