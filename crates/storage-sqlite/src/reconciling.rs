//! Looking for serials that nothing explains.
//!
//! Everything that explains serials is read as ranges, in order, from an index. A serial that is
//! explained stays so, because what takes one explanation away writes another in the same step: so
//! each serial is looked at once.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, params};
use storage::{GapReason, Reconciled, Span, TypeId};

use crate::error::StepResult;
use crate::ranges::without;
use crate::{gaps, issues};

/// Serials that were looked at.
pub(crate) struct Looked {
    pub(crate) parts: Vec<Part>,
    /// Whether that was all.
    pub(crate) done: bool,
}

/// Serials of one counter.
pub(crate) struct Part {
    span: Span,
    /// Whether some of them could not be explained.
    suspect: bool,
}

/// Looks at the next serials of a type, so many at most.
pub(crate) fn look(connection: &Connection, type_id: TypeId, most: u64) -> StepResult<Looked> {
    let unchecked: Vec<(String, Range<u64>)> = connection
        .prepare_cached(
            "SELECT period, checked, next FROM counters
             WHERE type_id = ?1 AND checked < next ORDER BY period",
        )?
        .query_map([type_id.0], |row| Ok((row.get(0)?, row.get(1)?..row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut looked = Looked { parts: Vec::new(), done: true };
    let mut left = most;
    for (period, Range { start, end }) in unchecked {
        let stop = end.min(start.saturating_add(left));
        looked.done &= stop == end;
        if start == stop {
            break;
        }
        left -= stop - start;
        let span = Span { type_id, period, serials: start..stop };
        let suspect = !unexplained(connection, &span)?.is_empty();
        looked.parts.push(Part { span, suspect });
    }
    Ok(looked)
}

/// Notes how far the counters were looked at, and makes gaps of what is missing. A counter that
/// somebody else has moved on since, or back, is left alone.
pub(crate) fn note(
    connection: &Connection,
    looked: Looked,
    now: Timestamp,
) -> StepResult<Reconciled> {
    let mut result = Reconciled { done: looked.done, ..Reconciled::default() };
    for Part { span, suspect } in looked.parts {
        let Span { type_id, period, serials } = &span;
        let moved = connection
            .prepare_cached(
                "UPDATE counters SET checked = ?4
                 WHERE type_id = ?1 AND period = ?2 AND checked = ?3 AND next >= ?4",
            )?
            .execute(params![type_id.0, period, serials.start, serials.end])?;
        if moved == 0 {
            result.done = true;
            continue;
        }
        result.serials += serials.end - serials.start;
        // Once more, now that nothing can happen meanwhile.
        let missing = if suspect { unexplained(connection, &span)? } else { Vec::new() };
        for serials in missing {
            let lost = Span { serials, ..span.clone() };
            let reason = GapReason::UntrackedLoss;
            result.found.push(gaps::insert(connection, &lost, reason, now, "")?);
        }
    }
    Ok(result)
}

/// The serials of a span that nothing explains, in order.
pub(crate) fn unexplained(connection: &Connection, span: &Span) -> StepResult<Vec<Range<u64>>> {
    let mut explained = Vec::new();
    add_log(connection, span, &mut explained)?;
    for sql in [DRAWS, GAPS, REJECTED] {
        add(connection, sql, place(span), &mut explained)?;
    }
    if span.period.is_empty() {
        let Span { type_id, serials, .. } = span;
        let params = params![type_id.0, serials.start, serials.end];
        add(connection, BATCHES, params, &mut explained)?;
    }
    explained.sort_by_key(|range| range.start);
    let missing = without(&span.serials, explained);
    // The numbers of documents are in the log, and few numbers are reserved: these are read only
    // where something is missing.
    let mut rest = Vec::new();
    for serials in missing {
        let hole = Span { serials, ..span.clone() };
        let mut single = Vec::new();
        for sql in [DOCUMENTS, RESERVATIONS] {
            add(connection, sql, place(&hole), &mut single)?;
        }
        single.sort_by_key(|range: &Range<u64>| range.start);
        rest.extend(without(&hole.serials, single));
    }
    Ok(rest)
}

// Ranges that do not overlap, by their ends, or by their starts from the last one on that begins
// before the span.
pub(crate) const DRAWS: &str = "
    SELECT start, stop FROM draws
    WHERE type_id = ?1 AND period = ?2 AND stop > ?3
      AND stop <= coalesce((SELECT min(stop) FROM draws
                            WHERE type_id = ?1 AND period = ?2 AND stop >= ?4), ?4)
    ORDER BY stop";

pub(crate) const GAPS: &str = "
    SELECT start, stop FROM gaps INDEXED BY gaps_open
    WHERE type_id = ?1 AND period = ?2 AND closed_at IS NULL AND start < ?4
      AND start >= coalesce((SELECT max(start) FROM gaps INDEXED BY gaps_open
                             WHERE type_id = ?1 AND period = ?2 AND closed_at IS NULL
                               AND start <= ?3), ?3)
    ORDER BY start";

pub(crate) const REJECTED: &str = "
    SELECT start, stop FROM rejected
    WHERE type_id = ?1 AND period = ?2 AND start < ?4
      AND start >= coalesce((SELECT max(start) FROM rejected
                             WHERE type_id = ?1 AND period = ?2 AND start <= ?3), ?3)
    ORDER BY start";

pub(crate) const BATCHES: &str = "
    SELECT start, stop FROM batches
    WHERE type_id = ?1 AND start < ?3
      AND start >= coalesce((SELECT max(start) FROM batches
                             WHERE type_id = ?1 AND start <= ?2), ?2)
    ORDER BY start";

pub(crate) const LOG: &str = "
    SELECT start, stop FROM issue_log
    WHERE type_id = ?1 AND period = ?2 AND width_log2 = ?3 AND start BETWEEN ?4 AND ?5 - 1
    ORDER BY start";

const DOCUMENTS: &str = "
    SELECT serial, serial + 1 FROM documents
    WHERE type_id = ?1 AND period = ?2 AND serial BETWEEN ?3 AND ?4 - 1 ORDER BY serial";

const RESERVATIONS: &str = "
    SELECT serial, serial + 1 FROM reservations
    WHERE type_id = ?1 AND period = ?2 AND serial BETWEEN ?3 AND ?4 - 1 ORDER BY serial";

/// The parameters of most of these.
fn place(span: &Span) -> impl Params {
    let Span { type_id, period, serials } = span;
    (type_id.0, period.as_str(), serials.start, serials.end)
}

/// Adds ranges that are read in order, with neighbours joined.
fn add(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    explained: &mut Vec<Range<u64>>,
) -> StepResult<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut joined: Option<Range<u64>> = None;
    while let Some(row) = rows.next()? {
        let (start, end) = (row.get(0)?, row.get(1)?);
        match &mut joined {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => explained.extend(joined.replace(start..end)),
        }
    }
    explained.extend(joined);
    Ok(())
}

/// Adds the groups of issues. Those that reach into the span begin within a known distance of it.
fn add_log(
    connection: &Connection,
    span: &Span,
    explained: &mut Vec<Range<u64>>,
) -> StepResult<()> {
    let Span { type_id, period, serials } = span;
    let mut next_width = connection.prepare_cached(issues::NEXT_WIDTH)?;
    let mut width_log2: i64 = -1;
    while let Some(next) =
        next_width.query_one(params![type_id.0, period, width_log2], |row| row.get(0)).optional()?
    {
        width_log2 = next;
        let first = (serials.start + 1).saturating_sub(issues::width_max(width_log2)?);
        let params = params![type_id.0, period, width_log2, first, serials.end];
        add(connection, LOG, params, explained)?;
    }
    Ok(())
}
