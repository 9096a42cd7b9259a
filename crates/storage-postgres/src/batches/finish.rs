//! Finishing a chunk: its rows and the note that it is done, in one transaction.

use jiff::Timestamp;
use storage::{Chunk, Result};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::codes::{CodeTable, copy_pieces, parts};
use crate::counters::write_count;
use crate::database::Database;
use crate::error;
use crate::session::{Keep, Param};
use crate::spans::write_serial;
use crate::time::Time;

// Whoever else has a claim on the chunk waits here, and then finds that it is done.
const FENCE: &str = "
    SELECT 1 FROM chunks
    WHERE batch_id = $1 AND number = $2 AND token = $3 AND state = 'running' FOR UPDATE";

impl PostgresStore {
    pub(super) async fn finish(&self, chunk: &Chunk, now: Timestamp) -> Result<bool> {
        write_serial(chunk.serials.end)?;
        let Some(shard) = self.shard_of_batch(chunk.batch) else { return Ok(false) };
        let mut tables = Vec::new();
        for (number, _) in parts(&chunk.serials) {
            // Before the transaction, which would make everybody else wait for the table.
            match self.code_table(shard, chunk.type_id, number).await? {
                Some(table) => tables.push(table),
                None => return Ok(false),
            }
        }
        let finished =
            shard.within(shard.limits.work, write(shard, chunk, &tables, Time::new(now))).await;
        if finished.is_err() {
            // Should somebody have dropped one, the next attempt makes it again.
            for (number, _) in parts(&chunk.serials) {
                self.code_tables.forget(chunk.type_id, number);
            }
        }
        finished
    }
}

async fn write(shard: &Database, chunk: &Chunk, tables: &[CodeTable], now: Time) -> Result<bool> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let mut session = shard.session().await?;
    let (work_ms, step_ms) = (shard.limits.work.as_millis(), shard.limits.step.as_millis());
    session.begin(work_ms, step_ms).await.map_err(failed)?;
    let (batch, number) = (chunk.batch.0, write_count(chunk.number));
    let params: [Param<'_>; 3] =
        [(&batch, Type::INT8), (&number, Type::INT8), (&chunk.token, Type::INT8)];
    if session.query(Keep::Prepared, FENCE, &params).await.map_err(failed)?.is_empty() {
        session.roll_back().await.map_err(failed)?;
        return Ok(false);
    }
    for ((_, serials), table) in parts(&chunk.serials).zip(tables) {
        let position = chunk.position + (serials.start - chunk.serials.start);
        let sql = format!("COPY {} (serial, id) FROM STDIN (FORMAT binary)", table.codes);
        let pieces = copy_pieces(chunk.batch, serials, position);
        session.copy(&sql, pieces).await.map_err(failed)?;
    }
    // Only here, because the row of the batch is everybody's.
    let params: [Param<'_>; 3] =
        [(&batch, Type::INT8), (&number, Type::INT8), (&now, Type::TIMESTAMPTZ)];
    session
        .query(Keep::Prepared, "SELECT finish_chunk($1, $2, $3)", &params)
        .await
        .map_err(failed)?;
    session.commit().await.map_err(failed)?;
    Ok(true)
}
