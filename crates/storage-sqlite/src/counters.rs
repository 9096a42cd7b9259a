//! Counters: how far each has been drawn.

use std::ops::Range;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{CounterStore, Draw, Gap, GapReason, GivenBack, Result, Span, StoreError, TypeId};

use crate::error::StepResult;
use crate::types::mark_used;
use crate::{SqliteStore, draws, gaps};

/// An order for serials that can wait for the writer.
struct Order {
    type_id: TypeId,
    period: String,
    count: u64,
    bounds: (u64, u64),
    instance: String,
    now: Timestamp,
}

/// Where a counter stands, if it was ever drawn from.
fn next(connection: &Connection, type_id: TypeId, period: &str) -> StepResult<Option<u64>> {
    let next = connection
        .prepare_cached("SELECT next FROM counters WHERE type_id = ?1 AND period = ?2")?
        .query_one(params![type_id.0, period], |row| row.get(0))
        .optional()?;
    Ok(next)
}

fn move_to(
    connection: &Connection,
    type_id: TypeId,
    period: &str,
    next: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO counters (type_id, period, next) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET next = excluded.next",
        )?
        .execute(params![type_id.0, period, next])?;
    Ok(())
}

fn draw(connection: &Connection, order: Order) -> StepResult<Range<u64>> {
    let Order { type_id, period, count, bounds, instance, now } = order;
    let retired: Option<bool> = connection
        .prepare_cached("SELECT retired FROM id_types WHERE id = ?1")?
        .query_one([type_id.0], |row| row.get(0))
        .optional()?;
    if retired != Some(false) {
        return Err(StoreError::NotFound("type").into());
    }
    let start = next(connection, type_id, &period)?.unwrap_or(bounds.0);
    let stop = start.saturating_add(count).min(bounds.1);
    if stop <= start {
        return Ok(start..start);
    }
    move_to(connection, type_id, &period, stop)?;
    let span = Span { type_id, period, serials: start..stop };
    draws::insert(connection, &span, &instance, now.as_millisecond())?;
    mark_used(connection, type_id)?;
    Ok(span.serials)
}

fn give_back(
    connection: &Connection,
    span: &Span,
    instance: &str,
    now: Timestamp,
) -> StepResult<GivenBack> {
    if span.serials.is_empty() || !draws::is_tail(connection, span, instance)? {
        return Err(StoreError::NotFound("draw").into());
    }
    draws::take_off(connection, span)?;
    if next(connection, span.type_id, &span.period)? == Some(span.serials.end) {
        move_to(connection, span.type_id, &span.period, span.serials.start)?;
        Ok(GivenBack::ToCounter)
    } else {
        gaps::insert(connection, span, GapReason::PoolDiscarded, now, instance)?;
        Ok(GivenBack::Gap)
    }
}

fn close_lost(connection: &Connection, instance: &str, now: Timestamp) -> StepResult<Vec<Gap>> {
    draws::take_lost(connection, instance)?
        .into_iter()
        .map(|lost| gaps::insert(connection, &lost.span, GapReason::Crash, now, &lost.instance))
        .collect()
}

#[async_trait]
impl CounterStore for SqliteStore {
    async fn draw(&self, draw_: Draw<'_>) -> Result<Range<u64>> {
        let Draw { type_id, period, count, bounds, instance, now } = draw_;
        let (period, instance) = (period.to_owned(), instance.to_owned());
        let order = Order { type_id, period, count, bounds, instance, now };
        self.writer.run(move |connection| draw(connection, order)).await
    }

    async fn give_back(&self, span: &Span, instance: &str, now: Timestamp) -> Result<GivenBack> {
        let (span, instance) = (span.clone(), instance.to_owned());
        self.writer.run(move |connection| give_back(connection, &span, &instance, now)).await
    }

    async fn close_lost_draws(&self, instance: &str, now: Timestamp) -> Result<Vec<Gap>> {
        let instance = instance.to_owned();
        self.writer.run(move |connection| close_lost(connection, &instance, now)).await
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
}
