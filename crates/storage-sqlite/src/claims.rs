//! Claims: which chunk is worked on next.

use rusqlite::{Connection, OptionalExtension, params};
use storage::{BatchId, Chunk, ClaimTerms};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{batches, chunks};

/// What a dead letter says whose last worker never came back.
const SILENT: &str = "its worker was silent for too long";

// Only batches that are under way are looked at, with one probe each. Left to itself, the planner
// would read past all dead letters of a batch.
pub(crate) const NEXT: &str = "
    SELECT batches.id, batches.tenant,
           (SELECT min(number) FROM chunks INDEXED BY chunks_ready
            WHERE batch = batches.id AND state = 'ready') AS number
    FROM batches JOIN batch_tenants ON batch_tenants.tenant = batches.tenant
    WHERE batches.finished_at IS NULL AND number IS NOT NULL
    ORDER BY batch_tenants.turn, batches.id LIMIT 1";

/// Takes the next chunk.
pub(crate) fn claim(
    connection: &Connection,
    worker: &str,
    terms: ClaimTerms,
) -> StepResult<Option<Chunk>> {
    wake(connection, terms)?;
    take_from_the_silent(connection, terms)?;
    let next: Option<(i64, String, u64)> = connection
        .prepare_cached(NEXT)?
        .query_one([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
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
                 since = ?3, worker = ?4
             WHERE batch = ?1 AND number = ?2 RETURNING attempts, token",
        )?
        .query_one(params![id, number, Millis(terms.now), worker], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let batch = batches::find(connection, BatchId(id))?
        .ok_or_else(|| corrupt(format!("a chunk of batch {id}, which is not there")))?;
    Ok(Some(Chunk {
        batch: batch.id,
        type_id: batch.type_id,
        number,
        serials: batch.chunk(number),
        position: number * batch.chunk_serials,
        attempt,
        token,
    }))
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

/// Readies chunks whose workers were silent for too long, or gives up on them. A worker that comes
/// back before another one has begun is still welcome, so the token stays.
fn take_from_the_silent(connection: &Connection, terms: ClaimTerms) -> StepResult<()> {
    let silent_ms = i64::try_from(terms.silent.as_millis()).unwrap_or(i64::MAX);
    let before = terms.now.as_millisecond().saturating_sub(silent_ms);
    let silent: Vec<(i64, i64, u32)> = connection
        .prepare_cached(
            "SELECT batch, number, attempts FROM chunks WHERE state = 'claimed' AND since <= ?1",
        )?
        .query_map([before], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (batch, number, attempts) in silent {
        if attempts >= terms.attempts_max {
            chunks::bury(connection, (batch, number), SILENT, terms.now)?;
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

/// Readies the chunks of everybody else, and counts them.
pub(crate) fn release(connection: &Connection, instance: &str) -> StepResult<u64> {
    let released = connection
        .prepare_cached(
            "UPDATE chunks SET state = 'ready', token = token + 1
             WHERE state = 'claimed' AND worker <> ?1",
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
