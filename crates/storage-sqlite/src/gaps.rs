//! Serials that will never carry anything.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{Gap, GapReason, Issue, IssueGroup, Page, Span, TypeId};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;

const COLUMNS: &str = "id, type_id, period, start, stop, reason, detected_at, instance";

pub(crate) const FIND: &str = "
    SELECT gaps.* FROM counters JOIN gaps ON gaps.id = (
        SELECT id FROM gaps AS before
        WHERE before.type_id = counters.type_id AND before.period = counters.period
          AND before.start <= ?3
        ORDER BY before.start DESC LIMIT 1)
    WHERE counters.type_id = ?1 AND (?2 IS NULL OR counters.period = ?2)
      AND gaps.stop > ?3
    ORDER BY counters.period";

/// The span of a row that has one.
pub(crate) fn read_span(row: &Row<'_>) -> rusqlite::Result<Span> {
    Ok(Span {
        type_id: TypeId(row.get("type_id")?),
        period: row.get("period")?,
        serials: row.get("start")?..row.get("stop")?,
    })
}

fn read_row(row: &Row<'_>) -> StepResult<Gap> {
    let name: String = row.get("reason")?;
    let reason = GapReason::ALL.into_iter().find(|reason| reason.name() == name);
    Ok(Gap {
        id: row.get("id")?,
        span: read_span(row)?,
        reason: reason.ok_or_else(|| corrupt(format!("a gap has the unknown reason {name:?}")))?,
        detected_at: row.get::<_, Millis>("detected_at")?.0,
        instance: row.get("instance")?,
    })
}

/// Records a gap.
pub(crate) fn insert(
    connection: &Connection,
    span: &Span,
    reason: GapReason,
    now: Timestamp,
    instance: &str,
) -> StepResult<Gap> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(&format!(
            "INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING {COLUMNS}"
        ))?
        .query_and_then(
            params![
                type_id.0,
                period,
                serials.start,
                serials.end,
                reason.name(),
                Millis(now),
                instance
            ],
            read_row,
        )?
        .next()
        .ok_or_else(|| corrupt("a gap was not recorded"))?
}

/// Takes what was issued after all off the gaps that hold it.
///
/// An instance that was taken for gone writes its log late. Serials around the issues stay in their
/// gap: nobody was given them.
pub(crate) fn take_off(connection: &Connection, group: &IssueGroup) -> StepResult<()> {
    let Span { type_id, period, serials } = &group.span;
    let touched: Vec<Gap> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM gaps WHERE type_id = ?1 AND period = ?2 AND start < ?3
             ORDER BY start DESC"
        ))?
        .query_and_then(params![type_id.0, period, serials.end], read_row)?
        // Gaps do not overlap, so those before the span need not be read. Usually that is all.
        .take_while(|gap| gap.as_ref().map_or(true, |g| g.span.serials.end > serials.start))
        .collect::<StepResult<_>>()?;
    for gap in touched {
        let rest = without(&gap.span.serials, &group.issues);
        if rest != [gap.span.serials.clone()] {
            replace(connection, &gap, &rest)?;
        }
    }
    Ok(())
}

/// What is left of serials without those that were issued. The issues are in order.
fn without(serials: &Range<u64>, issues: &[Issue]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut start = serials.start;
    for issue in issues {
        let before = start..issue.first.min(serials.end);
        if !before.is_empty() {
            rest.push(before);
        }
        start = start.max(issue.last.saturating_add(1));
    }
    if start < serials.end {
        rest.push(start..serials.end);
    }
    rest
}

/// Puts what is left of a gap in its place. The first part keeps the number.
fn replace(connection: &Connection, gap: &Gap, rest: &[Range<u64>]) -> StepResult<()> {
    let Some((first, others)) = rest.split_first() else {
        connection.prepare_cached("DELETE FROM gaps WHERE id = ?1")?.execute([gap.id])?;
        return Ok(());
    };
    connection
        .prepare_cached("UPDATE gaps SET start = ?2, stop = ?3 WHERE id = ?1")?
        .execute(params![gap.id, first.start, first.end])?;
    for serials in others {
        let part = Span { serials: serials.clone(), ..gap.span.clone() };
        insert(connection, &part, gap.reason, gap.detected_at, &gap.instance)?;
    }
    Ok(())
}

/// The gaps of a type, oldest first.
pub(crate) fn list(connection: &Connection, type_id: TypeId, page: Page) -> StepResult<Vec<Gap>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM gaps WHERE type_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
        ))?
        .query_and_then(params![type_id.0, page.after, page.limit], read_row)?
        .collect()
}

/// The gaps that hold a serial. Gaps of one counter do not overlap, so the last one that begins
/// before the serial is the only one that can.
pub(crate) fn find(
    connection: &Connection,
    type_id: TypeId,
    period: Option<&str>,
    serial: i64,
) -> StepResult<Vec<Gap>> {
    connection
        .prepare_cached(FIND)?
        .query_and_then(params![type_id.0, period, serial], read_row)?
        .collect()
}
