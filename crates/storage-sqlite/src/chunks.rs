//! Chunks that somebody works on: how they end.

use jiff::Timestamp;
use rusqlite::{Connection, params};
use storage::{Chunk, Now};

use crate::batches::read_state;
use crate::error::StepResult;
use crate::time::Millis;
use crate::{codes, events};

/// What changes for a batch.
#[derive(Default)]
pub(crate) struct Progress<'a> {
    pub(crate) made: u64,
    pub(crate) abandoned: u64,
    pub(crate) dead_chunks: i64,
    pub(crate) error: Option<&'a str>,
    /// When the chunk was claimed that was finished.
    pub(crate) claimed_at: Option<Millis>,
}

/// Where a batch stands, and since when only dead letters are left of it. All chunks but the last have the
/// same size, so that can be told from their number.
const STAND: &str = "
    UPDATE batches SET
        state = CASE WHEN made + abandoned = stop - start THEN 'completed'
                     WHEN dead_chunks > 0 THEN 'needs_attention'
                     ELSE 'running' END,
        finished_at = CASE WHEN made + abandoned = stop - start THEN ?2 END,
        idle_since = CASE WHEN only_dead THEN coalesce(idle_since, ?2) END,
        idle_ms = idle_ms + CASE WHEN only_dead OR idle_since IS NULL THEN 0
                                 ELSE max(0, ?2 - idle_since) END,
        worked_at = CASE WHEN only_dead OR idle_since IS NULL THEN worked_at ELSE ?2 END
    FROM (SELECT stop - start - made - abandoned
                     BETWEEN 1 AND dead_chunks * chunk_serials AS only_dead
          FROM batches WHERE id = ?1)
    WHERE id = ?1 RETURNING state";

/// Notes what has changed for a batch and where it stands now, and tells if that is somewhere else.
pub(crate) fn advance(
    connection: &Connection,
    batch: i64,
    progress: &Progress<'_>,
    now: Timestamp,
) -> StepResult<()> {
    let Progress { made, abandoned, dead_chunks, error, claimed_at } = progress;
    if let Some(claimed_at) = claimed_at {
        connection
            .prepare_cached(
                "UPDATE batches SET worked_at = ?3,
                     idle_ms = idle_ms + max(0, ?2 - coalesce(worked_at, started_at, ?2))
                 WHERE id = ?1",
            )?
            .execute(params![batch, claimed_at, Millis(now)])?;
    }
    let before: String = connection
        .prepare_cached(
            "UPDATE batches SET made = made + ?2, abandoned = abandoned + ?3,
                 dead_chunks = dead_chunks + ?4, error = coalesce(?5, error)
             WHERE id = ?1 RETURNING state",
        )?
        .query_one(params![batch, made, abandoned, dead_chunks, error], |row| row.get(0))?;
    let after: String = connection
        .prepare_cached(STAND)?
        .query_one(params![batch, Millis(now)], |row| row.get(0))?;
    if before == after {
        return Ok(());
    }
    events::tell(connection, batch, read_state(&after)?, now)
}

/// Whether a claim is in force. Whatever ends one changes the token or removes the row.
fn in_force(connection: &Connection, chunk: &Chunk) -> StepResult<bool> {
    let in_force = connection
        .prepare_cached(
            "SELECT EXISTS (
                 SELECT 1 FROM chunks WHERE batch = ?1 AND number = ?2 AND token = ?3)",
        )?
        .query_one(params![chunk.batch.0, chunk.number, chunk.token], |row| row.get(0))?;
    Ok(in_force)
}

/// Writes the rows of a chunk and takes it off what is left to do.
pub(crate) fn finish(connection: &Connection, chunk: &Chunk, now: &Now) -> StepResult<bool> {
    if !in_force(connection, chunk)? {
        return Ok(false);
    }
    codes::insert(connection, chunk)?;
    let claimed_at = connection
        .prepare_cached("DELETE FROM chunks WHERE batch = ?1 AND number = ?2 RETURNING since")?
        .query_one(params![chunk.batch.0, chunk.number], |row| row.get(0))?;
    let made = chunk.serials.end - chunk.serials.start;
    let progress = Progress { made, claimed_at, ..Progress::default() };
    advance(connection, chunk.batch.0, &progress, now())?;
    Ok(true)
}

/// Notes that a chunk failed.
pub(crate) fn fail(
    connection: &Connection,
    chunk: &Chunk,
    error: &str,
    retry_at: Option<Timestamp>,
    now: Timestamp,
) -> StepResult<bool> {
    if !in_force(connection, chunk)? {
        return Ok(false);
    }
    let Some(retry_at) = retry_at else {
        let number = i64::try_from(chunk.number).unwrap_or(i64::MAX);
        bury(connection, (chunk.batch.0, number), error, now)?;
        return Ok(true);
    };
    connection
        .prepare_cached(
            "UPDATE chunks SET state = 'waiting', since = ?3, token = token + 1, error = ?4,
                 instance = NULL, worker = NULL
             WHERE batch = ?1 AND number = ?2",
        )?
        .execute(params![chunk.batch.0, chunk.number, Millis(retry_at), error])?;
    let progress = Progress { error: Some(error), ..Progress::default() };
    advance(connection, chunk.batch.0, &progress, now)?;
    Ok(true)
}

/// Makes a dead letter of a chunk.
pub(crate) fn bury(
    connection: &Connection,
    (batch, number): (i64, i64),
    error: &str,
    now: Timestamp,
) -> StepResult<()> {
    connection
        .prepare_cached(
            "UPDATE chunks SET state = 'dead', since = ?3, token = token + 1, error = ?4,
                 instance = NULL, worker = NULL
             WHERE batch = ?1 AND number = ?2",
        )?
        .execute(params![batch, number, Millis(now), error])?;
    let progress = Progress { dead_chunks: 1, error: Some(error), ..Progress::default() };
    advance(connection, batch, &progress, now)
}
