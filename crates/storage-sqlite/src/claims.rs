//! Claims: which chunk is worked on next.

use rusqlite::{Connection, OptionalExtension, params};
use storage::{BatchId, Chunk, ClaimTerms, WorkerName};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{batches, chunks, codes};

/// What a dead letter says whose last worker never came back.
const SILENT: &str = "its worker was silent for too long";

/// What a dead letter says whose last worker went down with its instance.
const GONE: &str = "its worker is gone";

// Only batches that are under way are looked at, with one probe each. Left to itself, the planner
// would read past all dead letters of a batch.
pub(crate) const NEXT: &str = "
    SELECT batches.id, batches.tenant,
           (SELECT min(number) FROM chunks INDEXED BY chunks_ready
            WHERE batch = batches.id AND state = 'ready') AS number
    FROM batches JOIN batch_tenants ON batch_tenants.tenant = batches.tenant
    WHERE batches.finished_at IS NULL AND number IS NOT NULL
      AND batches.tenant = coalesce(?1, batches.tenant)
    ORDER BY batch_tenants.turn, batches.id LIMIT 1";

/// Takes the next chunk, of a tenant or of all.
pub(crate) fn claim(
    connection: &Connection,
    worker: &WorkerName,
    tenant: Option<&str>,
    terms: ClaimTerms,
) -> StepResult<Option<Chunk>> {
    if let Some(chunk) = claim_again(connection, worker, terms)? {
        return Ok(Some(chunk));
    }
    wake(connection, terms)?;
    take_from_the_silent(connection, terms)?;
    let next: Option<(i64, String, u64)> = connection
        .prepare_cached(NEXT)?
        .query_one([tenant], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((id, tenant, number)) = next else { return Ok(None) };
    end_turn(connection, &tenant)?;
    connection
        .prepare_cached(
            "UPDATE batches SET started_at = coalesce(started_at, ?2),
                 state = CASE state WHEN 'queued' THEN 'running' ELSE state END
             WHERE id = ?1 AND (started_at IS NULL OR state = 'queued')",
        )?
        .execute(params![id, Millis(terms.now)])?;
    let (attempt, token) = connection
        .prepare_cached(
            "UPDATE chunks SET state = 'claimed', attempts = attempts + 1, token = token + 1,
                 since = ?3, instance = ?4, worker = ?5
             WHERE batch = ?1 AND number = ?2 RETURNING attempts, token",
        )?
        .query_one(
            params![id, number, Millis(terms.now), worker.instance, worker.number],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    claimed(connection, BatchId(id), number, attempt, token).map(Some)
}

/// Takes a chunk that the worker has claimed before, and never heard of it.
fn claim_again(
    connection: &Connection,
    worker: &WorkerName,
    terms: ClaimTerms,
) -> StepResult<Option<Chunk>> {
    let lost: Option<(i64, u64)> = connection
        .prepare_cached(
            "SELECT batch, number FROM chunks WHERE instance = ?1 AND worker = ?2 LIMIT 1",
        )?
        .query_one(params![worker.instance, worker.number], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, number)) = lost else { return Ok(None) };
    let (attempt, token) = connection
        .prepare_cached(
            "UPDATE chunks SET state = 'claimed', token = token + 1, since = ?3
             WHERE batch = ?1 AND number = ?2 RETURNING attempts, token",
        )?
        .query_one(params![id, number, Millis(terms.now)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    claimed(connection, BatchId(id), number, attempt, token).map(Some)
}

/// A chunk that was claimed. Its table is made here, and that of the chunk behind it, so that none
/// has to be made while rows are written.
fn claimed(
    connection: &Connection,
    id: BatchId,
    number: u64,
    attempt: u32,
    token: i64,
) -> StepResult<Chunk> {
    let batch = batches::find(connection, id)?
        .ok_or_else(|| corrupt(format!("a chunk of batch {}, which is not there", id.0)))?;
    let serials = batch.chunk(number);
    let ahead = serials.end.saturating_add(batch.chunk_serials).min(batch.serials.end);
    codes::make_tables(connection, batch.type_id, serials.start..ahead)?;
    let position = number * batch.chunk_serials;
    Ok(Chunk { batch: id, type_id: batch.type_id, number, serials, position, attempt, token })
}

/// Readies chunks that have waited long enough after a failure.
fn wake(connection: &Connection, terms: ClaimTerms) -> StepResult<()> {
    connection
        .prepare_cached(
            "UPDATE chunks SET state = 'ready' WHERE state = 'waiting' AND since <= ?1",
        )?
        .execute([Millis(terms.now)])?;
    Ok(())
}

/// Readies chunks whose workers were silent for too long or are gone, or gives up on them. A worker
/// that comes back before another one has begun is still welcome, so it stays on record with its
/// token.
fn take_from_the_silent(connection: &Connection, terms: ClaimTerms) -> StepResult<()> {
    let silent_ms = i64::try_from(terms.silent.as_millis()).unwrap_or(i64::MAX);
    let before = terms.now.as_millisecond().saturating_sub(silent_ms);
    let silent: Vec<(i64, i64, u32, bool)> = connection
        .prepare_cached(
            "SELECT batch, number, attempts, instance IS NULL FROM chunks
             WHERE state = 'claimed' AND (since IS NULL OR since <= ?1)",
        )?
        .query_map([before], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (batch, number, attempts, is_gone) in silent {
        if attempts >= terms.attempts_max {
            let why = if is_gone { GONE } else { SILENT };
            chunks::bury(connection, (batch, number), why, terms.now)?;
        } else {
            connection
                .prepare_cached(
                    "UPDATE chunks SET state = 'ready' WHERE batch = ?1 AND number = ?2",
                )?
                .execute([batch, number])?;
        }
    }
    Ok(())
}

/// Ends the claims of everybody else, and counts them. The next claim readies the chunks, or gives
/// up on them if this happened too often: what took the instance down may be their fault.
pub(crate) fn release(connection: &Connection, instance: &str) -> StepResult<u64> {
    let released = connection
        .prepare_cached(
            "UPDATE chunks SET instance = NULL, worker = NULL, since = NULL, token = token + 1
             WHERE instance <> ?1",
        )?
        .execute([instance])?;
    Ok(released as u64)
}

/// Puts a tenant behind all others.
fn end_turn(connection: &Connection, tenant: &str) -> StepResult<()> {
    connection
        .prepare_cached(
            "UPDATE batch_tenants SET turn = 1 + (SELECT max(turn) FROM batch_tenants)
             WHERE tenant = ?1",
        )?
        .execute([tenant])?;
    Ok(())
}
