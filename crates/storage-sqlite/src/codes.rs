//! Codes: the rows that a chunk writes, and what happens to them later.

use std::collections::HashMap;
use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    BatchId, BatchRange, CODES_PER_TABLE, Chunk, CodeKey, CodeStatus, CodeStore, KeptContext,
    Ledger, PlacedContext, Result, ScanContext, ScanKey, TypeId, Void,
};

use crate::SqliteStore;
use crate::batches::{limit, read_ledger, read_void};
use crate::error::StepResult;
use crate::time::Millis;
use crate::{scan_contexts, scan_keys};

const STATUS: &str = "scans, first_scanned_at, void_at, void_reason";

/// The table of a serial.
fn table(type_id: TypeId, serial: u64) -> String {
    format!("codes_{}_{}", type_id.0, serial / CODES_PER_TABLE)
}

/// The table of what happened to codes of a table.
fn table_of_marks(type_id: TypeId, serial: u64) -> String {
    format!("marks_{}_{}", type_id.0, serial / CODES_PER_TABLE)
}

/// The parts of some serials that are in one table each.
fn parts(serials: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut start = serials.start;
    std::iter::from_fn(move || {
        let border = (start / CODES_PER_TABLE + 1) * CODES_PER_TABLE;
        let part = start..serials.end.min(border);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// Codes. The serial is the row's own number, so that rows in order of serials are appended, which is
/// the cheapest insert there is. Rows are never changed.
const CODE_COLUMNS: &str = "serial INTEGER PRIMARY KEY, id INTEGER NOT NULL";

/// What happens to codes. It has only those that something happened to, so that its pages are few and
/// counting a scan seldom brings a new one into the log.
const MARK_COLUMNS: &str = "
    serial           INTEGER PRIMARY KEY,
    scans            INTEGER NOT NULL DEFAULT 0,
    first_scanned_at INTEGER,
    void_at          INTEGER,
    void_reason      TEXT";

/// Makes a table if it is not there.
fn make_table(connection: &Connection, table: &str, columns: &str) -> rusqlite::Result<()> {
    if !connection.table_exists(None, table)? {
        connection.execute_batch(&format!("CREATE TABLE {table} ({columns}) STRICT"))?;
    }
    Ok(())
}

/// Moves what happened to codes from their own rows, where earlier releases kept it. The columns stay:
/// to drop them would write every row again.
pub(crate) fn move_marks(connection: &Connection) -> rusqlite::Result<()> {
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'codes_*_*'")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for codes in tables {
        let marks = codes.replacen("codes", "marks", 1);
        make_table(connection, &marks, MARK_COLUMNS)?;
        connection.execute_batch(&format!(
            "INSERT INTO {marks} (serial, {STATUS}) SELECT serial, {STATUS} FROM {codes}
             WHERE scans > 0 OR void_at IS NOT NULL"
        ))?;
    }
    Ok(())
}

/// Makes the tables of some serials, before there is anything to write.
pub(crate) fn make_tables(
    connection: &Connection,
    type_id: TypeId,
    serials: Range<u64>,
) -> StepResult<()> {
    for part in parts(serials) {
        make_table(connection, &table(type_id, part.start), CODE_COLUMNS)?;
    }
    Ok(())
}

/// Writes the rows of a chunk. Their tables are there since it was claimed. Others wait meanwhile,
/// so the loop does nothing but bind and step.
pub(crate) fn insert(connection: &Connection, chunk: &Chunk) -> StepResult<()> {
    for part in parts(chunk.serials.clone()) {
        let table = table(chunk.type_id, part.start);
        let mut statement =
            connection.prepare(&format!("INSERT INTO {table} (serial, id) VALUES (?1, ?2)"))?;
        for serial in part {
            let position = chunk.position + (serial - chunk.serials.start);
            statement.raw_bind_parameter(1, serial.cast_signed())?;
            statement.raw_bind_parameter(2, chunk.batch.code_id(position))?;
            statement.raw_execute()?;
        }
    }
    Ok(())
}

/// Metadata may be large, so nothing is read that a scan does not need.
fn ranges(
    connection: &Connection,
    type_id: TypeId,
    from: u64,
    limit: i64,
) -> StepResult<Vec<BatchRange>> {
    let ranges = connection
        .prepare_cached(
            "SELECT id, start, stop, derived FROM batches WHERE type_id = ?1 AND start >= ?2
             ORDER BY start LIMIT ?3",
        )?
        .query_map(params![type_id.0, i64::try_from(from).unwrap_or(i64::MAX), limit], |row| {
            Ok(BatchRange {
                id: BatchId(row.get("id")?),
                serials: row.get("start")?..row.get("stop")?,
                ledger: read_ledger(row)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(ranges)
}

/// What there is to know about a batch when one of its codes is looked at.
#[derive(Clone)]
struct Origin {
    serials: Range<u64>,
    ledger: Ledger,
    recalled: Option<Void>,
}

fn origin(connection: &Connection, key: &CodeKey) -> StepResult<Option<Origin>> {
    let origin = connection
        .prepare_cached(
            "SELECT start, stop, derived, recalled_at, recall_reason FROM batches
             WHERE id = ?1 AND type_id = ?2",
        )?
        .query_one([key.batch.0, key.type_id.0], |row| {
            Ok(Origin {
                serials: row.get("start")?..row.get("stop")?,
                ledger: read_ledger(row)?,
                recalled: read_void(row, "recalled_at", "recall_reason")?,
            })
        })
        .optional()?;
    Ok(origin)
}

fn read_status(row: &Row<'_>) -> rusqlite::Result<CodeStatus> {
    Ok(CodeStatus {
        scans: row.get("scans")?,
        first_scanned_at: row.get::<_, Option<Millis>>("first_scanned_at")?.map(|time| time.0),
        void: read_void(row, "void_at", "void_reason")?,
    })
}

/// Whether a code of a batch was made: a stored one has a row.
fn was_made(connection: &Connection, key: &CodeKey, ledger: Ledger) -> StepResult<bool> {
    if ledger == Ledger::Derived {
        return Ok(true);
    }
    let table = table(key.type_id, key.serial);
    Ok(connection.table_exists(None, table.as_str())?
        && connection
            .prepare_cached(&format!("SELECT 1 FROM {table} WHERE serial = ?1"))?
            .exists([key.serial])?)
}

/// What happens to a code.
#[derive(Clone, Copy)]
enum Event<'a> {
    Scanned(u64),
    Voided(&'a str),
}

/// Lets something happen to a code that has a mark. None if it has none.
fn change_mark(
    connection: &Connection,
    key: &CodeKey,
    event: Event<'_>,
    now: Timestamp,
) -> StepResult<Option<CodeStatus>> {
    let table = table_of_marks(key.type_id, key.serial);
    if !connection.table_exists(None, table.as_str())? {
        return Ok(None);
    }
    let update = |change: &str| {
        connection.prepare_cached(&format!(
            "UPDATE {table} SET {change} WHERE serial = ?1 RETURNING {STATUS}"
        ))
    };
    let status = match event {
        Event::Scanned(scans) => {
            update("scans = scans + ?2, first_scanned_at = coalesce(first_scanned_at, ?3)")?
                .query_one(params![key.serial, scans, Millis(now)], read_status)
        }
        Event::Voided(reason) => {
            update("void_reason = coalesce(void_reason, ?2), void_at = coalesce(void_at, ?3)")?
                .query_one(params![key.serial, reason, Millis(now)], read_status)
        }
    };
    Ok(status.optional()?)
}

/// Lets something happen to a code of a known batch, if the code was made. One that has a mark was, and
/// the few marks are in memory more often than the many codes.
fn happen(
    connection: &Connection,
    key: &CodeKey,
    origin: &Origin,
    event: Event<'_>,
    now: Timestamp,
) -> StepResult<Option<CodeStatus>> {
    if !origin.serials.contains(&key.serial) {
        return Ok(None);
    }
    if let Some(status) = change_mark(connection, key, event, now)? {
        return Ok(Some(with_recall(status, origin)));
    }
    if !was_made(connection, key, origin.ledger)? {
        return Ok(None);
    }
    let table = table_of_marks(key.type_id, key.serial);
    make_table(connection, &table, MARK_COLUMNS)?;
    connection
        .prepare_cached(&format!("INSERT INTO {table} (serial) VALUES (?1)"))?
        .execute([key.serial])?;
    let status = change_mark(connection, key, event, now)?;
    Ok(status.map(|status| with_recall(status, origin)))
}

/// What is known of the code itself comes first.
fn with_recall(status: CodeStatus, origin: &Origin) -> CodeStatus {
    CodeStatus { void: status.void.or_else(|| origin.recalled.clone()), ..status }
}

/// Counts scans, and tells how each code stands afterwards.
pub(crate) fn scan(
    connection: &Connection,
    scans: &[(CodeKey, u64)],
    now: Timestamp,
) -> StepResult<Vec<Option<CodeStatus>>> {
    let mut origins: HashMap<BatchId, Option<Origin>> = HashMap::new();
    let mut statuses = Vec::with_capacity(scans.len());
    for (key, count) in scans {
        let known = match origins.get(&key.batch) {
            Some(known) => known,
            None => origins.entry(key.batch).or_insert(origin(connection, key)?),
        };
        statuses.push(match known {
            Some(known) => happen(connection, key, known, Event::Scanned(*count), now)?,
            None => None,
        });
    }
    Ok(statuses)
}

fn void(
    connection: &Connection,
    key: &CodeKey,
    reason: &str,
    now: Timestamp,
) -> StepResult<Option<CodeStatus>> {
    match origin(connection, key)? {
        Some(origin) => happen(connection, key, &origin, Event::Voided(reason), now),
        None => Ok(None),
    }
}

/// How a code stands.
pub(crate) fn look(connection: &Connection, key: &CodeKey) -> StepResult<Option<CodeStatus>> {
    let Some(origin) = origin(connection, key)? else { return Ok(None) };
    if !origin.serials.contains(&key.serial) {
        return Ok(None);
    }
    let status = match mark(connection, key)? {
        Some(status) => status,
        None if was_made(connection, key, origin.ledger)? => {
            CodeStatus { scans: 0, first_scanned_at: None, void: None }
        }
        None => return Ok(None),
    };
    Ok(Some(with_recall(status, &origin)))
}

/// What happened to a code, if anything did.
fn mark(connection: &Connection, key: &CodeKey) -> StepResult<Option<CodeStatus>> {
    let table = table_of_marks(key.type_id, key.serial);
    if !connection.table_exists(None, table.as_str())? {
        return Ok(None);
    }
    let mut statement =
        connection.prepare_cached(&format!("SELECT {STATUS} FROM {table} WHERE serial = ?1"))?;
    Ok(statement.query_one([key.serial], read_status).optional()?)
}

#[async_trait]
impl CodeStore for SqliteStore {
    async fn batch_ranges(
        &self,
        type_id: TypeId,
        from: u64,
        most: usize,
    ) -> Result<Vec<BatchRange>> {
        self.readers.run(move |connection| ranges(connection, type_id, from, limit(most))).await
    }

    async fn scan(
        &self,
        scans: &[(CodeKey, u64)],
        contexts: &[PlacedContext],
        now: Timestamp,
    ) -> Result<Vec<Option<CodeStatus>>> {
        let (scans, contexts) = (scans.to_vec(), contexts.to_vec());
        self.writer
            .run(move |connection| {
                let statuses = scan(connection, &scans, now)?;
                scan_contexts::keep(connection, &scans, &statuses, &contexts, now)?;
                Ok(statuses)
            })
            .await
    }

    async fn scan_once(
        &self,
        key: &CodeKey,
        once: &ScanKey,
        context: Option<&ScanContext>,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>> {
        let (key, once, context) = (*key, *once, context.cloned());
        self.writer
            .run(move |connection| scan_keys::scan(connection, &key, &once, context.as_ref(), now))
            .await
    }

    async fn forget_scan_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.writer.run(move |connection| scan_keys::forget(connection, before, limit)).await
    }

    async fn scan_contexts(
        &self,
        key: &CodeKey,
        before: u64,
        most: usize,
    ) -> Result<Vec<KeptContext>> {
        let (key, most) = (*key, limit(most));
        self.readers
            .run(move |connection| scan_contexts::list(connection, &key, before, most))
            .await
    }

    async fn forget_scan_contexts(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.writer.run(move |connection| scan_contexts::forget(connection, before, limit)).await
    }

    async fn code(&self, key: &CodeKey) -> Result<Option<CodeStatus>> {
        let key = *key;
        self.readers.run(move |connection| look(connection, &key)).await
    }

    async fn void_code(
        &self,
        key: &CodeKey,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>> {
        let (key, reason) = (*key, reason.to_owned());
        self.writer.run(move |connection| void(connection, &key, &reason, now)).await
    }
}
