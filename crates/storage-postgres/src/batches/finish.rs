//! Finishing a chunk: its rows and the note that it is done, in one transaction.

use storage::{Chunk, Now, Result};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::codes::{CodeTable, copy_pieces, parts};
use crate::counters::write_count;
use crate::database::Database;
use crate::error;
use crate::session::{Keep, Param, Session};
use crate::spans::write_serial;
use crate::time::Time;

const HOLD: &str = "SELECT hold_chunk($1, $2, $3, $4)";

const FINISH: &str = "SELECT finish_chunk($1, $2, $3, $4)";

impl PostgresStore {
    pub(super) async fn finish(&self, chunk: &Chunk, now: &Now) -> Result<bool> {
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
        let finished = shard.within(shard.limits.work, write(shard, chunk, &tables, now)).await;
        if finished.is_err() {
            // Should somebody have dropped one, the next attempt makes it again.
            for (number, _) in parts(&chunk.serials) {
                self.code_tables.forget(chunk.type_id, number);
            }
        }
        finished
    }
}

/// The row of the chunk is locked at the end only: a worker that stands still while it sends codes must
/// not keep others from taking over or cancelling.
async fn write(shard: &Database, chunk: &Chunk, tables: &[CodeTable], now: &Now) -> Result<bool> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let mut session = shard.session().await?;
    let (work_ms, step_ms) = (shard.limits.work.as_millis(), shard.limits.step.as_millis());
    session.begin(work_ms, step_ms).await.map_err(failed)?;
    let (batch, number, token) = (chunk.batch.0, write_count(chunk.number), chunk.token);
    let lock = chunk.batch.code_id(chunk.position);
    let params: [Param<'_>; 4] =
        [(&batch, Type::INT8), (&number, Type::INT8), (&token, Type::INT8), (&lock, Type::INT8)];
    if !is_so(&mut session, HOLD, &params).await.map_err(failed)? {
        session.roll_back().await.map_err(failed)?;
        return Ok(false);
    }
    for ((_, serials), table) in parts(&chunk.serials).zip(tables) {
        let position = chunk.position + (serials.start - chunk.serials.start);
        let sql = format!("COPY {} (serial, id) FROM STDIN (FORMAT binary)", table.codes);
        let pieces = copy_pieces(chunk.batch, serials, position);
        session.copy(&sql, pieces).await.map_err(failed)?;
    }
    let ended_at = Time::new(now());
    let params: [Param<'_>; 4] = [
        (&batch, Type::INT8),
        (&number, Type::INT8),
        (&token, Type::INT8),
        (&ended_at, Type::TIMESTAMPTZ),
    ];
    let finished = is_so(&mut session, FINISH, &params).await.map_err(failed)?;
    let ended = if finished { session.commit().await } else { session.roll_back().await };
    ended.map_err(failed)?;
    Ok(finished)
}

async fn is_so(
    session: &mut Session,
    sql: &str,
    params: &[Param<'_>],
) -> Result<bool, tokio_postgres::Error> {
    let rows = session.query(Keep::Prepared, sql, params).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}
