//! Serials that will never carry anything, or turned out to do so after all.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{DocumentKey, Gap, GapReason, IssueGroup, SignOff, Span, TypeId};

use crate::batches::read_time;
use crate::error::{StepResult, corrupt};
use crate::ranges::{common, without};
use crate::time::Millis;

/// Most serials of a closed gap, so that the look for a serial knows how far before it to begin.
pub(crate) const CLOSED_SERIALS_MAX: u64 = 1024;

pub(crate) const COLUMNS: &str = "id, type_id, period, start, stop, reason, detected_at, lost_at,
    instance, closed_at, signed_by, signed_at, signed_note";

/// The span of a row that has one.
pub(crate) fn read_span(row: &Row<'_>) -> rusqlite::Result<Span> {
    Ok(Span {
        type_id: TypeId(row.get("type_id")?),
        period: row.get("period")?,
        serials: row.get("start")?..row.get("stop")?,
    })
}

/// A gap in a row that has all its columns.
pub(crate) fn read_row(row: &Row<'_>) -> StepResult<Gap> {
    let name: String = row.get("reason")?;
    let reason = GapReason::ALL.into_iter().find(|reason| reason.name() == name);
    let sign_off = match read_time(row, "signed_at")? {
        Some(at) => {
            Some(SignOff { key_id: row.get("signed_by")?, at, note: row.get("signed_note")? })
        }
        None => None,
    };
    Ok(Gap {
        id: row.get("id")?,
        span: read_span(row)?,
        reason: reason.ok_or_else(|| corrupt(format!("a gap has the unknown reason {name:?}")))?,
        detected_at: row.get::<_, Millis>("detected_at")?.0,
        lost_at: read_time(row, "lost_at")?,
        instance: row.get("instance")?,
        closed_at: read_time(row, "closed_at")?,
        sign_off,
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
    insert_lost(connection, span, reason, now, instance, None)
}

/// Records a gap that was lost at a time.
pub(crate) fn insert_lost(
    connection: &Connection,
    span: &Span,
    reason: GapReason,
    now: Timestamp,
    instance: &str,
    lost_at: Option<Timestamp>,
) -> StepResult<Gap> {
    let (span, instance, detected_at) = (span.clone(), instance.to_owned(), now);
    let (closed_at, sign_off) = (None, None);
    let gap = Gap { id: 0, span, reason, detected_at, lost_at, instance, closed_at, sign_off };
    put(connection, &gap)
}

/// Records a gap under a number of its own.
fn put(connection: &Connection, gap: &Gap) -> StepResult<Gap> {
    let Span { type_id, period, serials } = &gap.span;
    let sign_off = gap.sign_off.as_ref();
    connection
        .prepare_cached(&format!(
            "INSERT INTO gaps (type_id, period, start, stop, reason, detected_at, instance,
                 closed_at, signed_by, signed_at, signed_note, lost_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) RETURNING {COLUMNS}"
        ))?
        .query_and_then(
            params![
                type_id.0,
                period,
                serials.start,
                serials.end,
                gap.reason.name(),
                Millis(gap.detected_at),
                gap.instance,
                gap.closed_at.map(Millis),
                sign_off.map(|by| by.key_id),
                sign_off.map(|by| Millis(by.at)),
                sign_off.map(|by| &by.note),
                gap.lost_at.map(Millis)
            ],
            read_row,
        )?
        .next()
        .ok_or_else(|| corrupt("a gap was not recorded"))?
}

/// The open gaps that hold serials of a span, the last one first.
fn touched(connection: &Connection, span: &Span) -> StepResult<Vec<Gap>> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM gaps INDEXED BY gaps_open
             WHERE type_id = ?1 AND period = ?2 AND start < ?3 AND closed_at IS NULL
             ORDER BY start DESC"
        ))?
        .query_and_then(params![type_id.0, period, serials.end], read_row)?
        // They do not overlap, so those before the span need not be read. Usually that is all.
        .take_while(|gap| gap.as_ref().map_or(true, |g| g.span.serials.end > serials.start))
        .collect()
}

/// Takes what was issued after all off the gaps that hold it.
///
/// An instance that was taken for gone writes its log late. Serials around the issues stay in their
/// gap: nobody was given them.
pub(crate) fn take_off(connection: &Connection, group: &IssueGroup) -> StepResult<()> {
    for gap in touched(connection, &group.span)? {
        let issued = group.issues.iter().map(|issue| issue.first..issue.last.saturating_add(1));
        let rest = without(&gap.span.serials, issued);
        if rest != [gap.span.serials.clone()] {
            divide(connection, &gap, rest.into_iter().map(|serials| (serials, None)))?;
        }
    }
    Ok(())
}

/// Closes what was recorded as lost and was not, and keeps the record. False if a part of the span
/// was not: somebody has it, or had it.
pub(crate) fn find_again(connection: &Connection, span: &Span, now: Timestamp) -> StepResult<bool> {
    let mut found = 0;
    for gap in touched(connection, span)? {
        if !is_loss(gap.reason) {
            return Ok(false);
        }
        let part = common(&gap.span.serials, &span.serials);
        found += part.end - part.start;
        let open = without(&gap.span.serials, [part.clone()]).into_iter();
        let closed = narrow(part).map(|serials| (serials, Some(now)));
        divide(connection, &gap, open.map(|serials| (serials, None)).chain(closed))?;
    }
    Ok(found == span.serials.end - span.serials.start)
}

/// Whether a reason says that nobody knew what became of a serial.
fn is_loss(reason: GapReason) -> bool {
    matches!(reason, GapReason::Crash | GapReason::PoolDiscarded | GapReason::UntrackedLoss)
}

/// Serials in ranges that a closed gap may have.
fn narrow(serials: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = serials;
    let width = usize::try_from(CLOSED_SERIALS_MAX).unwrap_or(usize::MAX);
    (start..end)
        .step_by(width)
        .map(move |start| start..end.min(start.saturating_add(CLOSED_SERIALS_MAX)))
}

/// Puts parts in the place of a gap, each open or closed. The first one keeps the number.
fn divide(
    connection: &Connection,
    gap: &Gap,
    parts: impl IntoIterator<Item = (Range<u64>, Option<Timestamp>)>,
) -> StepResult<()> {
    let mut parts = parts.into_iter();
    let Some((first, closed_at)) = parts.next() else {
        connection.prepare_cached("DELETE FROM gaps WHERE id = ?1")?.execute([gap.id])?;
        return Ok(());
    };
    connection
        .prepare_cached("UPDATE gaps SET start = ?2, stop = ?3, closed_at = ?4 WHERE id = ?1")?
        .execute(params![gap.id, first.start, first.end, closed_at.map(Millis)])?;
    for (serials, closed_at) in parts {
        let span = Span { serials, ..gap.span.clone() };
        put(connection, &Gap { span, closed_at, ..gap.clone() })?;
    }
    Ok(())
}

/// Says that the number of a document carries nothing, and why. A number that is a gap already stays
/// the same one. For another reason it is another one, because somebody may have accepted the first. Those
/// that are lost together are one gap.
pub(crate) fn open_for(
    connection: &Connection,
    key: &DocumentKey,
    reason: GapReason,
    now: Timestamp,
) -> StepResult<()> {
    let span = span_of(key);
    if touched(connection, &span)?.iter().any(|gap| gap.reason == reason) {
        return Ok(());
    }
    close_for(connection, key, now)?;
    let before = connection
        .prepare_cached(
            "UPDATE gaps INDEXED BY gaps_open SET stop = ?3 + 1
             WHERE type_id = ?1 AND period = ?2 AND closed_at IS NULL AND stop = ?3
               AND start = (SELECT max(start) FROM gaps INDEXED BY gaps_open
                            WHERE type_id = ?1 AND period = ?2 AND start < ?3
                              AND closed_at IS NULL)
               AND reason = ?4 AND detected_at = ?5 AND instance = '' AND lost_at IS NULL
               AND signed_at IS NULL",
        )?
        .execute(params![key.type_id.0, key.period, key.serial, reason.name(), Millis(now)])?;
    if before == 0 {
        // No instance has lost it.
        insert(connection, &span, reason, now, "")?;
    }
    Ok(())
}

/// Closes the gap of a document, if there is one.
pub(crate) fn close_for(
    connection: &Connection,
    key: &DocumentKey,
    now: Timestamp,
) -> StepResult<()> {
    let span = span_of(key);
    for gap in touched(connection, &span)? {
        let open = without(&gap.span.serials, [span.serials.clone()]).into_iter();
        let closed = (span.serials.clone(), Some(now));
        divide(connection, &gap, open.map(|serials| (serials, None)).chain([closed]))?;
    }
    Ok(())
}

/// The number of a document as a span.
fn span_of(key: &DocumentKey) -> Span {
    let DocumentKey { type_id, period, serial } = key.clone();
    Span { type_id, period, serials: serial..serial + 1 }
}
