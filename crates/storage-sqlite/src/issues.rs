//! The issue log.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{
    Gap, GapFilter, GapTotals, IssueGroup, IssueRecord, IssueStore, Reconciled, Result, SignOff,
    Span, TypeId, packing,
};

use crate::error::{StepResult, corrupt};
use crate::types::mark_used;
use crate::{SqliteStore, draws, gap_lists, gaps, reconciling};

// The next two are one step in the index each, however many rows there are. Comparing both columns
// at once, as in (period, width_log2) > (?, ?), would read all rows of the class before.
pub(crate) const NEXT_WIDTH: &str = "
    SELECT width_log2 FROM issue_log
    WHERE type_id = ?1 AND period = ?2 AND width_log2 > ?3
    ORDER BY width_log2 LIMIT 1";

pub(crate) const NEXT_PERIOD: &str = "
    SELECT period FROM issue_log
    WHERE type_id = ?1 AND period > ?2
    ORDER BY period LIMIT 1";

pub(crate) const FIND_IN_CLASS: &str = "
    SELECT start, entries FROM issue_log
    WHERE type_id = ?1 AND period = ?2 AND width_log2 = ?3 AND start BETWEEN ?4 AND ?5
      AND stop > ?5
    ORDER BY start";

fn record(connection: &Connection, group: &IssueGroup) -> StepResult<()> {
    let serials = &group.span.serials;
    // An empty span accounts for nothing.
    if serials.is_empty() {
        return Ok(());
    }
    let taken = draws::take_off(connection, &group.span, None)?;
    if group.issues.is_empty() {
        return taken.iter().try_for_each(|part| record_rejected(connection, &part.span));
    }
    gaps::take_off(connection, group)?;
    write(connection, group)
}

/// Writes a group with issues to the log.
pub(crate) fn write(connection: &Connection, group: &IssueGroup) -> StepResult<()> {
    let Span { type_id, period, serials } = &group.span;
    let Some(width_log2) = serials.end.saturating_sub(serials.start).checked_ilog2() else {
        return Ok(());
    };
    // A group that is there already was written by an attempt whose answer got lost. If it has
    // grown since, the longer one holds what the shorter one held.
    connection
        .prepare_cached(
            "INSERT INTO issue_log (type_id, period, width_log2, start, stop, entries)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO UPDATE SET stop = excluded.stop, entries = excluded.entries
             WHERE excluded.stop > stop",
        )?
        .execute(params![
            type_id.0,
            period,
            width_log2,
            serials.start,
            serials.end,
            packing::encode(serials.start, &group.issues)
        ])?;
    Ok(())
}

/// Remembers that nothing is missing where a filter rejects everything. Serials come off a draw once,
/// so the rows never overlap.
fn record_rejected(connection: &Connection, span: &Span) -> StepResult<()> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(
            "INSERT INTO rejected (type_id, period, start, stop) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![type_id.0, period, serials.start, serials.end])?;
    Ok(())
}

fn record_all(connection: &Connection, issued: &[IssueGroup]) -> StepResult<()> {
    let mut marked = None;
    for group in issued {
        record(connection, group)?;
        // A draw has marked its type already; snowflakes come without one.
        if !group.issues.is_empty()
            && marked.replace(group.span.type_id) != Some(group.span.type_id)
        {
            mark_used(connection, group.span.type_id)?;
        }
    }
    Ok(())
}

/// Most serials in a group of a class.
pub(crate) fn width_max(width_log2: i64) -> StepResult<u64> {
    u32::try_from(width_log2)
        .ok()
        .filter(|&log2| log2 < 63)
        .map(|log2| (2 << log2) - 1)
        .ok_or_else(|| corrupt(format!("the log has rows of width 2^{width_log2}")))
}

/// Adds the issues of one class that hold a serial.
fn find_in_class(
    connection: &Connection,
    type_id: TypeId,
    (period, width_log2): (&str, i64),
    serial: u64,
    found: &mut Vec<IssueRecord>,
) -> StepResult<()> {
    let width_max = width_max(width_log2)?;
    let start_min = (serial + 1).saturating_sub(width_max);
    let mut statement = connection.prepare_cached(FIND_IN_CLASS)?;
    let mut rows = statement.query(params![type_id.0, period, width_log2, start_min, serial])?;
    while let Some(row) = rows.next()? {
        let start = row.get(0)?;
        let entries = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let issues = packing::decode(start, entries)
            .ok_or_else(|| corrupt(format!("the log of type {} at serial {start}", type_id.0)))?;
        for issue in issues {
            let record = IssueRecord { period: period.to_owned(), issue };
            let holds = (record.issue.first..=record.issue.last).contains(&serial);
            // A group that was written twice with different lengths is in two rows.
            if holds && !found.contains(&record) {
                found.push(record);
            }
        }
    }
    Ok(())
}

/// Adds the issues of one period that hold a serial.
fn find_in_period(
    connection: &Connection,
    type_id: TypeId,
    period: &str,
    serial: u64,
    found: &mut Vec<IssueRecord>,
) -> StepResult<()> {
    let mut next_width = connection.prepare_cached(NEXT_WIDTH)?;
    let mut width_log2 = -1;
    while let Some(next) =
        next_width.query_one(params![type_id.0, period, width_log2], |row| row.get(0)).optional()?
    {
        find_in_class(connection, type_id, (period, next), serial, found)?;
        width_log2 = next;
    }
    Ok(())
}

pub(crate) fn find(
    connection: &Connection,
    type_id: TypeId,
    period: Option<&str>,
    serial: u64,
) -> StepResult<Vec<IssueRecord>> {
    let mut found = Vec::new();
    // The empty period is the first of all.
    let mut current = period.unwrap_or_default().to_owned();
    loop {
        find_in_period(connection, type_id, &current, serial, &mut found)?;
        if period.is_some() {
            return Ok(found);
        }
        let next = connection
            .prepare_cached(NEXT_PERIOD)?
            .query_one(params![type_id.0, current], |row| row.get(0))
            .optional()?;
        match next {
            Some(next) => current = next,
            None => return Ok(found),
        }
    }
}

#[async_trait]
impl IssueStore for SqliteStore {
    async fn record_issues(&self, groups: &[IssueGroup]) -> Result<()> {
        let issued = groups.to_vec();
        self.writer.run(move |connection| record_all(connection, &issued)).await
    }

    async fn find_issues(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<IssueRecord>> {
        if i64::try_from(serial).is_err() {
            return Ok(Vec::new());
        }
        let period = period.map(str::to_owned);
        self.readers
            .run(move |connection| find(connection, type_id, period.as_deref(), serial))
            .await
    }

    async fn list_gaps(&self, filter: &GapFilter) -> Result<Vec<Gap>> {
        let filter = filter.clone();
        self.readers.run(move |connection| gap_lists::list(connection, &filter)).await
    }

    async fn count_gaps(&self, filter: &GapFilter) -> Result<GapTotals> {
        let filter = filter.clone();
        self.readers.run(move |connection| gap_lists::count(connection, &filter)).await
    }

    async fn sign_off_gap(
        &self,
        type_id: TypeId,
        gap: i64,
        sign_off: &SignOff,
    ) -> Result<Option<Gap>> {
        let sign_off = sign_off.clone();
        self.writer
            .run(move |connection| gap_lists::sign_off(connection, type_id, gap, &sign_off))
            .await
    }

    /// The reading, which is nearly all of it, does not keep the writer busy.
    async fn reconcile(
        &self,
        type_id: TypeId,
        serials_max: u64,
        now: Timestamp,
    ) -> Result<Reconciled> {
        let looked = self
            .readers
            .run(move |connection| reconciling::look(connection, type_id, serials_max))
            .await?;
        if looked.parts.is_empty() {
            return Ok(Reconciled { done: looked.done, ..Reconciled::default() });
        }
        self.writer.run(move |connection| reconciling::note(connection, looked, now)).await
    }

    async fn find_gaps(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Gap>> {
        if i64::try_from(serial).is_err() {
            return Ok(Vec::new());
        }
        let period = period.map(str::to_owned);
        self.readers
            .run(move |connection| gap_lists::find(connection, type_id, period.as_deref(), serial))
            .await
    }
}
