//! Scans that came with a key, and count once.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{CodeKey, CodeStatus, ScanContext, ScanKey};

use crate::error::StepResult;
use crate::time::Millis;
use crate::{codes, scan_contexts};

/// Counts a scan and keeps what came along with it, unless it was counted under this key before.
pub(crate) fn scan(
    connection: &Connection,
    key: &CodeKey,
    once: &ScanKey,
    context: Option<&ScanContext>,
    now: Timestamp,
) -> StepResult<Option<CodeStatus>> {
    let counted: Option<u64> = connection
        .prepare_cached("SELECT scans FROM scan_keys WHERE key = ?1")?
        .query_one([once], |row| row.get(0))
        .optional()?;
    if let Some(scans) = counted {
        let status = codes::look(connection, key)?;
        return Ok(status.map(|status| CodeStatus { scans, ..status }));
    }
    let status = codes::scan(connection, &[(*key, 1)], now)?.pop().flatten();
    if let Some(status) = &status {
        connection
            .prepare_cached("INSERT INTO scan_keys (key, scans, counted_at) VALUES (?1, ?2, ?3)")?
            .execute(params![once, status.scans, Millis(now)])?;
        if let Some(context) = context {
            scan_contexts::keep_one(connection, key, status.scans, context, now)?;
        }
    }
    Ok(status)
}

/// Forgets keys, the oldest first.
pub(crate) fn forget(connection: &Connection, before: Timestamp, limit: u32) -> StepResult<u64> {
    let forgotten = connection
        .prepare_cached(
            "DELETE FROM scan_keys WHERE key IN (
                 SELECT key FROM scan_keys WHERE counted_at < ?1 ORDER BY counted_at LIMIT ?2)",
        )?
        .execute(params![Millis(before), limit])?;
    Ok(forgotten as u64)
}
