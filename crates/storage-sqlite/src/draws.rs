//! Serials that are with an instance and not accounted for.

use rusqlite::{Connection, Row, params};
use storage::Span;

use crate::error::StepResult;

/// A row of the table.
pub(crate) struct LiveDraw {
    pub(crate) span: Span,
    pub(crate) instance: String,
    /// Milliseconds since 1970. Nobody looks at it but a person.
    drawn_at: i64,
}

const COLUMNS: &str = "type_id, period, start, stop, instance, drawn_at";

fn read_row(row: &Row<'_>) -> rusqlite::Result<LiveDraw> {
    Ok(LiveDraw {
        span: crate::gaps::read_span(row)?,
        instance: row.get("instance")?,
        drawn_at: row.get("drawn_at")?,
    })
}

/// Remembers who has drawn a span.
pub(crate) fn insert(
    connection: &Connection,
    span: &Span,
    instance: &str,
    drawn_at: i64,
) -> rusqlite::Result<()> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(
            "INSERT INTO draws (type_id, period, start, stop, instance, drawn_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![type_id.0, period, serials.start, serials.end, instance, drawn_at])?;
    Ok(())
}

/// Whether a span is the end of what is left of a draw of this instance.
pub(crate) fn is_tail(
    connection: &Connection,
    span: &Span,
    instance: &str,
) -> rusqlite::Result<bool> {
    let Span { type_id, period, serials } = span;
    connection
        .prepare_cached(
            "SELECT EXISTS (
                 SELECT 1 FROM draws
                 WHERE type_id = ?1 AND period = ?2 AND stop = ?3 AND start <= ?4
                   AND instance = ?5)",
        )?
        .query_one(params![type_id.0, period, serials.end, serials.start, instance], |row| {
            row.get(0)
        })
}

/// Takes the serials of a span off the draws that hold them.
///
/// Usually they are the front of one draw. Whatever else they are, the serials on either side stay
/// unaccounted for: none may slip through. Serials that no draw holds are fine, too. They come from
/// snowflakes, or from a group that is written a second time.
pub(crate) fn take_off(connection: &Connection, span: &Span) -> StepResult<()> {
    let Span { type_id, period, serials } = span;
    let touched: Vec<LiveDraw> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM draws
             WHERE type_id = ?1 AND period = ?2 AND stop > ?3 ORDER BY stop"
        ))?
        .query_map(params![type_id.0, period, serials.start], read_row)?
        // Draws do not overlap, so those behind the span need not be read.
        .take_while(|draw| draw.as_ref().map_or(true, |d| d.span.serials.start < serials.end))
        .collect::<rusqlite::Result<_>>()?;
    for draw in touched {
        let drawn = &draw.span.serials;
        let key = params![type_id.0, period, drawn.end, serials.end];
        if drawn.end > serials.end {
            connection
                .prepare_cached(
                    "UPDATE draws SET start = ?4 WHERE type_id = ?1 AND period = ?2 AND stop = ?3",
                )?
                .execute(key)?;
        } else {
            connection
                .prepare_cached(
                    "DELETE FROM draws WHERE type_id = ?1 AND period = ?2 AND stop = ?3",
                )?
                .execute(&key[..3])?;
        }
        if drawn.start < serials.start {
            let before = Span { serials: drawn.start..serials.start, ..draw.span.clone() };
            insert(connection, &before, &draw.instance, draw.drawn_at)?;
        }
    }
    Ok(())
}

/// Takes the draws of every other instance.
pub(crate) fn take_lost(
    connection: &Connection,
    instance: &str,
) -> rusqlite::Result<Vec<LiveDraw>> {
    let lost = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM draws WHERE instance <> ?1 ORDER BY type_id, period, stop"
        ))?
        .query_map([instance], read_row)?
        .collect::<rusqlite::Result<_>>()?;
    connection.prepare_cached("DELETE FROM draws WHERE instance <> ?1")?.execute([instance])?;
    Ok(lost)
}
