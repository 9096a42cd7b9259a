//! Chunks that automatic retries gave up on.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{BatchId, DeadChunk, DeadFilter, GapReason, Span, TypeId, Verdict};

use crate::chunks::{self, Progress};
use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{batches, gaps, orders};

const LIST: &str = "
    SELECT chunks.*, batches.type_id,
           start + number * chunk_serials AS chunk_start,
           min(stop, start + (number + 1) * chunk_serials) AS chunk_stop
    FROM chunks JOIN batches ON batches.id = chunks.batch
    WHERE chunks.state = 'dead' AND (batch, number) > (?1, ?2)
      AND (?3 IS NULL OR batch = ?3) AND (?4 IS NULL OR number = ?4)
      AND (?5 IS NULL OR type_id IN (SELECT value FROM json_each(?5)))
    ORDER BY batch, number LIMIT ?6";

fn read_row(row: &Row<'_>) -> rusqlite::Result<DeadChunk> {
    Ok(DeadChunk {
        batch: BatchId(row.get("batch")?),
        type_id: TypeId(row.get("type_id")?),
        number: row.get("number")?,
        serials: row.get("chunk_start")?..row.get("chunk_stop")?,
        attempts: row.get("attempts")?,
        error: row.get("error")?,
        died_at: row.get::<_, Millis>("since")?.0,
    })
}

/// A number as a parameter. No chunk has one that does not fit.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Dead letters in order of batch and chunk.
pub(crate) fn list(connection: &Connection, filter: &DeadFilter) -> StepResult<Vec<DeadChunk>> {
    let after = filter.after.map_or((i64::MIN, 0), |(batch, chunk)| (batch.0, number(chunk)));
    let letters = connection
        .prepare_cached(LIST)?
        .query_map(
            params![
                after.0,
                after.1,
                filter.batch.map(|id| id.0),
                filter.chunk.map(number),
                batches::type_list(filter.types.as_deref())?,
                batches::limit(filter.limit)
            ],
            read_row,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(letters)
}

/// Decides about dead letters, and counts those that were some.
pub(crate) fn settle(
    connection: &Connection,
    chunks: &[(BatchId, u64)],
    verdict: Verdict,
    now: Timestamp,
) -> StepResult<u64> {
    let mut settled = 0;
    for (id, chunk) in chunks {
        settled += u64::from(settle_one(connection, *id, number(*chunk), verdict, now)?);
    }
    Ok(settled)
}

fn settle_one(
    connection: &Connection,
    id: BatchId,
    number: i64,
    verdict: Verdict,
    now: Timestamp,
) -> StepResult<bool> {
    let settled = connection
        .prepare_cached(match verdict {
            Verdict::Retry => {
                "UPDATE chunks SET state = 'ready', attempts = 0
                 WHERE batch = ?1 AND number = ?2 AND state = 'dead'"
            }
            Verdict::Abandon => {
                "DELETE FROM chunks WHERE batch = ?1 AND number = ?2 AND state = 'dead'"
            }
        })?
        .execute([id.0, number])?;
    if settled == 0 {
        return Ok(false);
    }
    let abandoned = match verdict {
        Verdict::Retry => 0,
        Verdict::Abandon => record_gap(connection, id, number.unsigned_abs(), now)?,
    };
    orders::take_off(connection, id, abandoned)?;
    let progress = Progress { abandoned, dead_chunks: -1, ..Progress::default() };
    chunks::advance(connection, id.0, &progress, now)?;
    Ok(true)
}

/// Explains the serials of a chunk that was given up, and counts them.
fn record_gap(
    connection: &Connection,
    id: BatchId,
    number: u64,
    now: Timestamp,
) -> StepResult<u64> {
    let batch = batches::find(connection, id)?
        .ok_or_else(|| corrupt(format!("a chunk of batch {}, which is not there", id.0)))?;
    let serials = batch.chunk(number);
    let count = serials.end - serials.start;
    let span = Span { type_id: batch.type_id, period: String::new(), serials };
    // No instance has lost them: somebody decided so.
    gaps::insert(connection, &span, GapReason::Abandoned, now, "")?;
    Ok(count)
}
