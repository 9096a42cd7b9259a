//! Serials that are with a holder and not accounted for.

use rusqlite::{Connection, Row, params};
use storage::Span;

use crate::error::StepResult;

/// A row of the table, or a part of one.
pub(crate) struct LiveDraw {
    pub(crate) span: Span,
    /// An instance, or a pool that instances share.
    pub(crate) holder: String,
    /// Milliseconds since 1970. Nobody looks at it but a person.
    pub(crate) drawn_at: i64,
}

const COLUMNS: &str = "type_id, period, start, stop, holder, drawn_at";

fn read_row(row: &Row<'_>) -> rusqlite::Result<LiveDraw> {
    Ok(LiveDraw {
        span: crate::gaps::read_span(row)?,
        holder: row.get("holder")?,
        drawn_at: row.get("drawn_at")?,
    })
}

/// Remembers who holds a span.
pub(crate) fn insert(
    connection: &Connection,
    span: &Span,
    holder: &str,
    drawn_at: i64,
) -> rusqlite::Result<()> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(
            "INSERT INTO draws (type_id, period, start, stop, holder, drawn_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![type_id.0, period, serials.start, serials.end, holder, drawn_at])?;
    Ok(())
}

/// Whether a span is the end of what is left of a draw of this holder.
pub(crate) fn is_tail(
    connection: &Connection,
    span: &Span,
    holder: &str,
) -> rusqlite::Result<bool> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(
            "SELECT EXISTS (
                 SELECT 1 FROM draws
                 WHERE type_id = ?1 AND period = ?2 AND stop = ?3 AND start <= ?4
                   AND holder = ?5)",
        )?
        .query_one(params![type_id.0, period, serials.end, serials.start, holder], |row| row.get(0))
}

/// Everything that a holder holds.
pub(crate) fn of_holder(connection: &Connection, holder: &str) -> StepResult<Vec<Span>> {
    let spans = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM draws WHERE holder = ?1 ORDER BY type_id, period, stop"
        ))?
        .query_map([holder], crate::gaps::read_span)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(spans)
}

/// Takes the serials of a span off the draws that hold them, or off those of one holder, and
/// returns what was taken.
///
/// Usually they are the front of one draw. Whatever else they are, the serials on either side stay
/// unaccounted for: none may slip through. Serials that no draw holds are fine, too. They come from
/// a group that is written a second time, or late.
pub(crate) fn take_off(
    connection: &Connection,
    span: &Span,
    holder: Option<&str>,
) -> StepResult<Vec<LiveDraw>> {
    let Span { type_id, period, serials } = span;
    if serials.is_empty() {
        return Ok(Vec::new());
    }
    let touched: Vec<LiveDraw> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM draws
             WHERE type_id = ?1 AND period = ?2 AND stop > ?3 ORDER BY stop"
        ))?
        .query_map(params![type_id.0, period, serials.start], read_row)?
        // Draws do not overlap, so those behind the span need not be read.
        .take_while(|draw| draw.as_ref().map_or(true, |d| d.span.serials.start < serials.end))
        .filter(|draw| draw.as_ref().map_or(true, |d| holder.is_none_or(|h| h == d.holder)))
        .collect::<rusqlite::Result<_>>()?;
    touched.into_iter().map(|draw| cut(connection, draw, span)).collect()
}

/// Takes the serials of a span off a draw that holds some of them.
fn cut(connection: &Connection, mut draw: LiveDraw, span: &Span) -> StepResult<LiveDraw> {
    let Span { type_id, period, serials } = span;
    let drawn = draw.span.serials.clone();
    let key = params![type_id.0, period, drawn.end, serials.end];
    if drawn.end > serials.end {
        connection
            .prepare_cached(
                "UPDATE draws SET start = ?4 WHERE type_id = ?1 AND period = ?2 AND stop = ?3",
            )?
            .execute(key)?;
    } else {
        connection
            .prepare_cached("DELETE FROM draws WHERE type_id = ?1 AND period = ?2 AND stop = ?3")?
            .execute(&key[..3])?;
    }
    if drawn.start < serials.start {
        let before = Span { serials: drawn.start..serials.start, ..draw.span.clone() };
        insert(connection, &before, &draw.holder, draw.drawn_at)?;
    }
    draw.span.serials = drawn.start.max(serials.start)..drawn.end.min(serials.end);
    Ok(draw)
}

/// Takes the draws of everybody else.
pub(crate) fn take_lost(
    connection: &Connection,
    instance: &str,
) -> rusqlite::Result<Vec<LiveDraw>> {
    let lost = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM draws WHERE holder <> ?1 ORDER BY type_id, period, stop"
        ))?
        .query_map([instance], read_row)?
        .collect::<rusqlite::Result<_>>()?;
    connection.prepare_cached("DELETE FROM draws WHERE holder <> ?1")?.execute([instance])?;
    Ok(lost)
}
