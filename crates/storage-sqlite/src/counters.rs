//! Counters: how far each has been drawn.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{
    CounterStore, Draw, Gap, GapReason, GivenBack, Losses, Result, Span, StoreError, TypeId,
    pool_holder,
};

use crate::draws::LiveDraw;
use crate::error::StepResult;
use crate::types::mark_used;
use crate::{SqliteStore, draws, epochs, gaps};

/// An order for serials that can wait for the writer.
struct Order {
    type_id: TypeId,
    period: String,
    count: u64,
    bounds: (u64, u64),
    holder: String,
    revision: i64,
    now: Timestamp,
}

/// Refuses what was meant for a type that is gone or has changed since.
pub(crate) fn check_revision(
    connection: &Connection,
    type_id: TypeId,
    revision: i64,
) -> StepResult<()> {
    let in_force: Option<i64> = connection
        .prepare_cached("SELECT revision FROM id_types WHERE id = ?1 AND retired = 0")?
        .query_one([type_id.0], |row| row.get(0))
        .optional()?;
    if in_force.ok_or(StoreError::NotFound("type"))? == revision {
        Ok(())
    } else {
        Err(StoreError::Stale.into())
    }
}

/// Where a counter stands, if it was ever drawn from.
pub(crate) fn next(
    connection: &Connection,
    type_id: TypeId,
    period: &str,
) -> StepResult<Option<u64>> {
    let next = connection
        .prepare_cached("SELECT next FROM counters WHERE type_id = ?1 AND period = ?2")?
        .query_one(params![type_id.0, period], |row| row.get(0))
        .optional()?;
    Ok(next)
}

/// Moves a counter to the end of what was drawn from it. What is given back moves it to the start of
/// that, and the reconciliation with it: it has to look at these serials once more.
pub(crate) fn move_to(
    connection: &Connection,
    type_id: TypeId,
    period: &str,
    drawn: Range<u64>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO counters (type_id, period, next, checked) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE
             SET next = excluded.next, checked = min(checked, excluded.next)",
        )?
        .execute(params![type_id.0, period, drawn.end, drawn.start])?;
    Ok(())
}

fn draw(connection: &Connection, order: Order) -> StepResult<Range<u64>> {
    let Order { type_id, period, count, bounds, holder, revision, now } = order;
    check_revision(connection, type_id, revision)?;
    let start = next(connection, type_id, &period)?.unwrap_or(bounds.0);
    let stop = start.saturating_add(count).min(bounds.1);
    if stop <= start {
        return Ok(start..start);
    }
    move_to(connection, type_id, &period, start..stop)?;
    let span = Span { type_id, period, serials: start..stop };
    draws::insert(connection, &span, &holder, now.as_millisecond())?;
    mark_used(connection, type_id)?;
    Ok(span.serials)
}

fn give_back(
    connection: &Connection,
    span: &Span,
    holder: &str,
    now: Timestamp,
) -> StepResult<GivenBack> {
    if span.serials.is_empty() || !draws::is_tail(connection, span, holder)? {
        return Err(StoreError::NotFound("draw").into());
    }
    draws::take_off(connection, span, Some(holder))?;
    if next(connection, span.type_id, &span.period)? == Some(span.serials.end) {
        let start = span.serials.start;
        move_to(connection, span.type_id, &span.period, start..start)?;
        Ok(GivenBack::ToCounter)
    } else {
        gaps::insert(connection, span, GapReason::PoolDiscarded, now, holder)?;
        Ok(GivenBack::Gap)
    }
}

fn hand_over(connection: &Connection, spans: &[Span], from: &str, to: &str) -> StepResult<()> {
    for span in spans {
        for part in draws::take_off(connection, span, Some(from))? {
            draws::insert(connection, &part.span, to, part.drawn_at)?;
        }
    }
    Ok(())
}

fn close(
    connection: &Connection,
    holder: &str,
    spans: &[Span],
    reason: GapReason,
    now: Timestamp,
) -> StepResult<Vec<Gap>> {
    let mut closed = Vec::new();
    for span in spans {
        for part in draws::take_off(connection, span, Some(holder))? {
            closed.push(gaps::insert(connection, &part.span, reason, now, holder)?);
        }
    }
    Ok(closed)
}

/// Whether a holder is a shared pool of some epoch.
fn is_pool(holder: &str) -> bool {
    let epoch = holder.rsplit_once('-').and_then(|(_, epoch)| epoch.parse().ok());
    epoch.is_some_and(|epoch| pool_holder(epoch) == holder)
}

/// Pools were in the memory of the process, too, so everything was lost with that.
fn close_lost(
    connection: &Connection,
    instance: &str,
    lost_at: Option<Timestamp>,
    now: Timestamp,
) -> StepResult<Losses> {
    let mut losses = Losses::default();
    for lost in draws::take_lost(connection, instance)? {
        let reason = if is_pool(&lost.holder) {
            GapReason::PoolDiscarded
        } else {
            if !losses.gone.contains(&lost.holder) {
                losses.gone.push(lost.holder.clone());
            }
            GapReason::Crash
        };
        let LiveDraw { span, holder, .. } = &lost;
        losses.gaps.push(gaps::insert_lost(connection, span, reason, now, holder, lost_at)?);
    }
    Ok(losses)
}

#[async_trait]
impl CounterStore for SqliteStore {
    async fn draw(&self, draw_: Draw<'_>) -> Result<Range<u64>> {
        let Draw { type_id, period, count, bounds, holder, revision, now } = draw_;
        let (period, holder) = (period.to_owned(), holder.to_owned());
        let order = Order { type_id, period, count, bounds, holder, revision, now };
        self.writer.run(move |connection| draw(connection, order)).await
    }

    async fn give_back(&self, span: &Span, holder: &str, now: Timestamp) -> Result<GivenBack> {
        let (span, holder) = (span.clone(), holder.to_owned());
        self.writer.run(move |connection| give_back(connection, &span, &holder, now)).await
    }

    async fn hand_over(&self, spans: &[Span], from: &str, to: &str) -> Result<()> {
        let (spans, from, to) = (spans.to_vec(), from.to_owned(), to.to_owned());
        self.writer.run(move |connection| hand_over(connection, &spans, &from, &to)).await
    }

    async fn open_draws(&self, holder: &str) -> Result<Vec<Span>> {
        let holder = holder.to_owned();
        self.readers.run(move |connection| draws::of_holder(connection, &holder)).await
    }

    async fn close_draws(
        &self,
        holder: &str,
        spans: &[Span],
        reason: GapReason,
        now: Timestamp,
    ) -> Result<Vec<Gap>> {
        let (holder, spans) = (holder.to_owned(), spans.to_vec());
        self.writer.run(move |connection| close(connection, &holder, &spans, reason, now)).await
    }

    /// One process at a time: whoever else holds anything is gone, and so is every pool, because
    /// a pool of this store lives in the memory of a process. There is nothing to be patient with.
    async fn close_lost_draws(
        &self,
        instance: &str,
        _grace: Duration,
        now: Timestamp,
    ) -> Result<Losses> {
        let (instance, lost_at) = (instance.to_owned(), self.last_written);
        self.writer.run(move |connection| close_lost(connection, &instance, lost_at, now)).await
    }

    async fn counters(&self, type_id: TypeId) -> Result<Vec<(String, u64)>> {
        self.readers
            .run(move |connection| {
                let counters = connection
                    .prepare_cached(
                        "SELECT period, next FROM counters WHERE type_id = ?1 ORDER BY period",
                    )?
                    .query_map([type_id.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(counters)
            })
            .await
    }

    async fn pool_epoch(&self, server: &str, now: Timestamp) -> Result<u64> {
        let server = server.to_owned();
        self.writer.run(move |connection| epochs::of_server(connection, &server, now)).await
    }

    async fn current_pool_epoch(&self) -> Result<Option<u64>> {
        let current = self.readers.run(epochs::current).await?;
        Ok(current.map(|(epoch, _)| epoch))
    }
}
