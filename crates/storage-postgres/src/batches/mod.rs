//! Batches and their chunks. They are on the shard of their tenant.

mod chunks;
mod finish;
mod list;
mod order;
mod rows;

use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{
    Batch, BatchFilter, BatchId, BatchOrder, BatchStore, Chunk, ClaimTerms, DeadChunk, DeadFilter,
    Now, Ordered, Result, Verdict, Wake, WorkerName,
};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error;
use crate::session::{Keep, Param};
use crate::spans::read_serials;
use crate::time::Time;

pub(crate) use chunks::ShardTurns;
pub(crate) use rows::{columns, read_batch, read_ledger, read_void};

impl PostgresStore {
    /// Runs a statement about one batch and reads it, if it is there.
    async fn one_batch(
        &self,
        id: BatchId,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Batch>> {
        let Some(shard) = self.shard_of_batch(id) else { return Ok(None) };
        let rows = shard.query(Repeat::Always, sql, params).await?;
        rows.first().map(read_batch).transpose()
    }
}

#[async_trait]
impl BatchStore for PostgresStore {
    fn on_order(&self, wake: Wake) {
        self.orders.tell(wake);
    }

    fn hears_of_orders(&self) -> bool {
        self.orders.are_heard_on(self.databases.len())
    }

    async fn order_batch(&self, order: &BatchOrder) -> Result<Ordered> {
        self.order(order).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Batch>> {
        let sql = format!("SELECT {} FROM batches WHERE id = $1", columns());
        self.one_batch(id, &sql, &[(&id.0, Type::INT8)]).await
    }

    async fn batches(&self, filter: &BatchFilter) -> Result<Vec<Batch>> {
        self.list_batches(filter).await
    }

    async fn claim_chunk(
        &self,
        worker: &WorkerName,
        tenant: Option<&str>,
        terms: ClaimTerms,
    ) -> Result<Option<Chunk>> {
        self.claim(worker, tenant, terms).await
    }

    async fn finish_chunk(&self, chunk: &Chunk, now: Now) -> Result<bool> {
        self.finish(chunk, &now).await
    }

    async fn fail_chunk(
        &self,
        chunk: &Chunk,
        error: &str,
        retry_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(shard) = self.shard_of_batch(chunk.batch) else { return Ok(false) };
        chunks::fail(shard, chunk, error, retry_at, now).await
    }

    async fn release_lost_chunks(&self, instance: &str) -> Result<u64> {
        self.release_lost(instance).await
    }

    async fn made(&self, id: BatchId) -> Result<Vec<Range<u64>>> {
        let Some(shard) = self.shard_of_batch(id) else { return Ok(Vec::new()) };
        let rows = shard.query(Repeat::Always, list::MADE, &[(&id.0, Type::INT8)]).await?;
        rows.iter().map(read_serials).collect()
    }

    /// A batch can have thousands of chunks, so it has the time of longer work. It waits for none that
    /// is being written, only for the moment in which one is noted as done.
    async fn cancel_batch(
        &self,
        id: BatchId,
        void_reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Batch>> {
        let Some(shard) = self.shard_of_batch(id) else { return Ok(None) };
        let failed = |error: tokio_postgres::Error| error::from_database(&error);
        let sql = format!("SELECT {} FROM cancel_batch($1, $2, $3)", columns());
        shard
            .within(shard.limits.work, async {
                let mut session = shard.session().await?;
                let limit_ms = shard.limits.work.as_millis();
                session.begin(limit_ms, limit_ms).await.map_err(failed)?;
                let now = Time::new(now);
                let params: [Param<'_>; 3] =
                    [(&id.0, Type::INT8), (&void_reason, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
                let rows = session.query(Keep::Never, &sql, &params).await.map_err(failed)?;
                session.commit().await.map_err(failed)?;
                rows.first().map(read_batch).transpose()
            })
            .await
    }

    async fn recall_batch(
        &self,
        id: BatchId,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<Batch>> {
        let sql = format!(
            "UPDATE batches SET recalled_at = coalesce(recalled_at, $3),
                 recall_reason = coalesce(recall_reason, $2)
             WHERE id = $1 RETURNING {}",
            columns()
        );
        let now = Time::new(now);
        let params: [Param<'_>; 3] =
            [(&id.0, Type::INT8), (&reason, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
        self.one_batch(id, &sql, &params).await
    }

    async fn dead_chunks(&self, filter: &DeadFilter) -> Result<Vec<DeadChunk>> {
        self.list_dead(filter).await
    }

    async fn settle_chunks(
        &self,
        chunks: &[(BatchId, u64)],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<u64> {
        let mut chunks = chunks.to_vec();
        chunks.sort_unstable_by_key(|(batch, number)| (batch.shard(), *batch, *number));
        let mut settled = 0;
        for of_shard in chunks.chunk_by(|(one, _), (other, _)| one.shard() == other.shard()) {
            let Some(shard) = self.shard_of_batch(of_shard[0].0) else { continue };
            let more = chunks::settle(shard, of_shard, verdict, now).await;
            settled += more.map_err(error::heard_of)?;
        }
        Ok(settled)
    }
}
