//! Batches on record, and the trait that they and their chunks answer to.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{
    Batch, BatchFilter, BatchId, BatchOrder, BatchState, BatchStore, Chunk, ClaimTerms, DeadChunk,
    DeadFilter, Ledger, Now, Ordered, Result, TypeId, Verdict, Void, Wake, WorkerName,
};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{SqliteStore, chunks, claims, dead_letters, orders};

// Reads backwards from the last one, so that the latest are found first.
const LIST: &str = "
    SELECT * FROM batches
    WHERE id < ?1 AND (?2 IS NULL OR state = ?2)
      AND (?3 IS NULL OR type_id IN (SELECT value FROM json_each(?3)))
    ORDER BY id DESC LIMIT ?4";

/// A column that may hold a time.
pub(crate) fn read_time(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<Millis>>(column)?.map(|millis| millis.0))
}

/// Two columns that say that and why something is void.
pub(crate) fn read_void(row: &Row<'_>, at: &str, reason: &str) -> rusqlite::Result<Option<Void>> {
    match read_time(row, at)? {
        Some(at) => Ok(Some(Void { at, reason: row.get(reason)? })),
        None => Ok(None),
    }
}

/// How the codes of the batch in a row are remembered.
pub(crate) fn read_ledger(row: &Row<'_>) -> rusqlite::Result<Ledger> {
    Ok(if row.get("derived")? { Ledger::Derived } else { Ledger::Stored })
}

/// The state with a name.
pub(crate) fn read_state(name: &str) -> StepResult<BatchState> {
    let state = BatchState::ALL.into_iter().find(|state| state.name() == name);
    state.ok_or_else(|| corrupt(format!("a batch is in the state {name:?}")))
}

/// A batch in a row that has all its columns.
pub(crate) fn read_row(row: &Row<'_>) -> StepResult<Batch> {
    Ok(Batch {
        id: BatchId(row.get("id")?),
        type_id: TypeId(row.get("type_id")?),
        serials: row.get("start")?..row.get("stop")?,
        chunk_serials: row.get("chunk_serials")?,
        ledger: read_ledger(row)?,
        state: read_state(&row.get::<_, String>("state")?)?,
        made: row.get("made")?,
        abandoned: row.get("abandoned")?,
        dead_chunks: row.get("dead_chunks")?,
        error: row.get("error")?,
        name: row.get("name")?,
        metadata: row.get("metadata")?,
        notify: row.get("notify")?,
        key_id: row.get("key_id")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
        started_at: read_time(row, "started_at")?,
        finished_at: read_time(row, "finished_at")?,
        idle_since: read_time(row, "idle_since")?,
        idle: Duration::from_millis(row.get("idle_ms")?),
        recalled: read_void(row, "recalled_at", "recall_reason")?,
    })
}

/// A batch as it is now.
pub(crate) fn find(connection: &Connection, id: BatchId) -> StepResult<Option<Batch>> {
    connection
        .prepare_cached("SELECT * FROM batches WHERE id = ?1")?
        .query_and_then([id.0], read_row)?
        .next()
        .transpose()
}

/// The batch of an order that was given before.
pub(crate) fn find_ordered(connection: &Connection, order_key: &str) -> StepResult<Option<Batch>> {
    connection
        .prepare_cached("SELECT * FROM batches WHERE order_key = ?1")?
        .query_and_then([order_key], read_row)?
        .next()
        .transpose()
}

/// Types as a parameter of a statement.
pub(crate) fn type_list(types: Option<&[TypeId]>) -> StepResult<Option<String>> {
    types
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| corrupt(format!("a list of types: {error}")))
}

/// A limit as a parameter of a statement.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn list(connection: &Connection, filter: &BatchFilter) -> StepResult<Vec<Batch>> {
    connection
        .prepare_cached(LIST)?
        .query_and_then(
            params![
                filter.before.map_or(i64::MAX, |id| id.0),
                filter.state.map(BatchState::name),
                type_list(filter.types.as_deref())?,
                limit(filter.limit)
            ],
            read_row,
        )?
        .collect()
}

fn recall(
    connection: &Connection,
    id: BatchId,
    reason: &str,
    now: Timestamp,
) -> StepResult<Option<Batch>> {
    connection
        .prepare_cached(
            "UPDATE batches SET recalled_at = ?2, recall_reason = ?3
             WHERE id = ?1 AND recalled_at IS NULL",
        )?
        .execute(params![id.0, Millis(now), reason])?;
    find(connection, id)
}

/// What is made: all but what is left to do and what was given up.
fn made(connection: &Connection, id: BatchId) -> StepResult<Vec<Range<u64>>> {
    let Some(batch) = find(connection, id)? else { return Ok(Vec::new()) };
    let mut unmade: Vec<Range<u64>> = connection
        .prepare_cached(
            "SELECT start, stop FROM gaps
             WHERE type_id = ?1 AND period = '' AND start >= ?2 AND start < ?3
               AND closed_at IS NULL",
        )?
        .query_map(params![batch.type_id.0, batch.serials.start, batch.serials.end], |row| {
            Ok(row.get(0)?..row.get(1)?)
        })?
        .collect::<rusqlite::Result<_>>()?;
    unmade.extend(orders::unmade(connection, &batch)?);
    unmade.sort_by_key(|serials| serials.start);
    let mut made = Vec::new();
    let mut start = batch.serials.start;
    for serials in unmade {
        if start < serials.start {
            made.push(start..serials.start);
        }
        start = serials.end;
    }
    if start < batch.serials.end {
        made.push(start..batch.serials.end);
    }
    Ok(made)
}

#[async_trait]
impl BatchStore for SqliteStore {
    // There is no other instance.
    fn on_order(&self, _wake: Wake) {}

    fn hears_of_orders(&self) -> bool {
        true
    }

    async fn order_batch(&self, order: &BatchOrder) -> Result<Ordered> {
        let order = order.clone();
        self.writer.run(move |connection| orders::order(connection, &order)).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<Batch>> {
        self.readers.run(move |connection| find(connection, id)).await
    }

    async fn batches(&self, filter: &BatchFilter) -> Result<Vec<Batch>> {
        let filter = filter.clone();
        self.readers.run(move |connection| list(connection, &filter)).await
    }

    async fn claim_chunk(
        &self,
        worker: &WorkerName,
        tenant: Option<&str>,
        terms: ClaimTerms,
    ) -> Result<Option<Chunk>> {
        let (worker, tenant) = (worker.clone(), tenant.map(ToOwned::to_owned));
        let claim = move |connection: &Connection| {
            claims::claim(connection, &worker, tenant.as_deref(), terms)
        };
        self.writer.run(claim).await
    }

    async fn finish_chunk(&self, chunk: &Chunk, now: Now) -> Result<bool> {
        let chunk = chunk.clone();
        self.writer.run_long(move |connection| chunks::finish(connection, &chunk, &now)).await
    }

    async fn fail_chunk(
        &self,
        chunk: &Chunk,
        error: &str,
        retry_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool> {
        let (chunk, error) = (chunk.clone(), error.to_owned());
        self.writer
            .run(move |connection| chunks::fail(connection, &chunk, &error, retry_at, now))
            .await
    }

    /// One process at a time: whoever else has claimed anything is gone.
    async fn release_lost_chunks(&self, instance: &str) -> Result<u64> {
        let instance = instance.to_owned();
        self.writer.run(move |connection| claims::release(connection, &instance)).await
    }

    async fn made(&self, id: BatchId) -> Result<Vec<Range<u64>>> {
        self.readers.run(move |connection| made(connection, id)).await
    }

    async fn cancel_batch(
        &self,
        id: BatchId,
        void_reason: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Batch>> {
        let reason = void_reason.map(ToOwned::to_owned);
        self.writer
            .run(move |connection| {
                let batch = orders::cancel(connection, id, now)?;
                let is_cancelled =
                    batch.as_ref().is_some_and(|batch| batch.state == BatchState::Cancelled);
                match reason {
                    Some(reason) if is_cancelled => recall(connection, id, &reason, now),
                    _ => Ok(batch),
                }
            })
            .await
    }

    async fn recall_batch(
        &self,
        id: BatchId,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<Batch>> {
        let reason = reason.to_owned();
        self.writer.run(move |connection| recall(connection, id, &reason, now)).await
    }

    async fn dead_chunks(&self, filter: &DeadFilter) -> Result<Vec<DeadChunk>> {
        let filter = filter.clone();
        self.readers.run(move |connection| dead_letters::list(connection, &filter)).await
    }

    async fn settle_chunks(
        &self,
        chunks: &[(BatchId, u64)],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<u64> {
        let chunks = chunks.to_vec();
        self.writer
            .run(move |connection| dead_letters::settle(connection, &chunks, verdict, now))
            .await
    }
}
