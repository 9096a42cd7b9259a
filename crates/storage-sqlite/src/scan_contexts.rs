//! What came along with scans.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{CodeKey, CodeStatus, KeptContext, PlacedContext, ScanContext};

use crate::error::StepResult;
use crate::time::Millis;

/// Keeps what came along with scans that were just counted, in the same step. `statuses` tells how the codes
/// of `scans` stand now.
pub(crate) fn keep(
    connection: &Connection,
    scans: &[(CodeKey, u64)],
    statuses: &[Option<CodeStatus>],
    contexts: &[PlacedContext],
    now: Timestamp,
) -> StepResult<()> {
    for PlacedContext { code, nth, context } in contexts {
        let ((key, count), Some(status)) = (&scans[*code], &statuses[*code]) else { continue };
        let number = status.scans - count + nth;
        keep_one(connection, key, number, context, now)?;
    }
    Ok(())
}

/// Keeps what came along with one scan.
pub(crate) fn keep_one(
    connection: &Connection,
    key: &CodeKey,
    number: u64,
    context: &ScanContext,
    now: Timestamp,
) -> StepResult<()> {
    let ScanContext { key_id, json } = context;
    connection
        .prepare_cached(
            "INSERT INTO scan_contexts (type_id, serial, number, scanned_at, key_id, context)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![key.type_id.0, key.serial, number, Millis(now), key_id, json])?;
    Ok(())
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<KeptContext> {
    Ok(KeptContext {
        number: row.get("number")?,
        scanned_at: row.get::<_, Millis>("scanned_at")?.0,
        context: ScanContext { key_id: row.get("key_id")?, json: row.get("context")? },
    })
}

/// What came along with scans of a code before a number, the latest first.
pub(crate) fn list(
    connection: &Connection,
    key: &CodeKey,
    before: u64,
    limit: i64,
) -> StepResult<Vec<KeptContext>> {
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let contexts = connection
        .prepare_cached(
            "SELECT number, scanned_at, key_id, context FROM scan_contexts
             WHERE type_id = ?1 AND serial = ?2 AND number < ?3
             ORDER BY number DESC LIMIT ?4",
        )?
        .query_map(params![key.type_id.0, key.serial, before, limit], read_row)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(contexts)
}

/// Forgets what came along, the oldest first.
pub(crate) fn forget(connection: &Connection, before: Timestamp, limit: u32) -> StepResult<u64> {
    let forgotten = connection
        .prepare_cached(
            "DELETE FROM scan_contexts WHERE rowid IN (
                 SELECT rowid FROM scan_contexts WHERE scanned_at < ?1
                 ORDER BY scanned_at LIMIT ?2)",
        )?
        .execute(params![Millis(before), limit])?;
    Ok(forgotten as u64)
}
