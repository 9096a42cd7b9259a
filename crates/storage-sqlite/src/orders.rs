//! Orders for batches, and what becomes of those that are cancelled.

use std::ops::Range;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use storage::{
    Batch, BatchId, BatchOrder, BatchState, GapReason, Ledger, Ordered, SNOWFLAKE_EPOCH_MS, Span,
    StoreError,
};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::types::mark_used;
use crate::{batches, counters, events, gaps};

/// The store has one shard.
pub(crate) const SHARD: u16 = 0;

/// Milliseconds that a snowflake has room for.
const CLOCK_MS_MAX: u64 = 1 << 41;

/// Takes an order.
pub(crate) fn order(connection: &Connection, order: &BatchOrder) -> StepResult<Ordered> {
    if let Some(key) = &order.order_key
        && let Some(batch) = batches::find_ordered(connection, key)?
    {
        return Ok(if batch.is_of(order) { Ordered::Done(batch) } else { Ordered::OtherOrder });
    }
    let BatchOrder { type_id, count, bounds, .. } = *order;
    counters::check_revision(connection, type_id, order.revision)?;
    let tenant = tenant(connection, order)?;
    // A derived batch is never under way.
    let active = under_way(connection, &tenant)?;
    if order.ledger == Ledger::Stored && active >= order.active_max {
        return Ok(Ordered::TooManyActive { active });
    }
    let ordered = ordered_so_far(connection, &tenant)?;
    if ordered.saturating_add(count) > order.codes_max {
        return Ok(Ordered::OverQuota { ordered });
    }
    let start = counters::next(connection, type_id, "")?.unwrap_or(bounds.0);
    let drawn = start.saturating_sub(bounds.0);
    let Some(stop) = start.checked_add(count).filter(|&stop| stop <= bounds.1) else {
        return Ok(Ordered::NoRoom { drawn });
    };
    let Some(id) = take_ids(connection, count, order.now)? else {
        return Ok(Ordered::NoRoom { drawn });
    };
    counters::move_to(connection, type_id, "", start..stop)?;
    mark_used(connection, type_id)?;
    add_ordered(connection, &tenant, count)?;
    insert(connection, id, &tenant, order, start..stop)?;
    let batch =
        batches::find(connection, id)?.ok_or_else(|| corrupt("a batch was not recorded"))?;
    events::tell(connection, id.0, batch.state, order.now)?;
    insert_chunks(connection, &batch)?;
    Ok(Ordered::Done(batch))
}

fn tenant(connection: &Connection, order: &BatchOrder) -> StepResult<String> {
    let tenant = connection
        .prepare_cached("SELECT tenant FROM id_types WHERE id = ?1")?
        .query_one([order.type_id.0], |row| row.get(0))
        .optional()?;
    Ok(tenant.ok_or(StoreError::NotFound("type"))?)
}

/// Batches of a tenant that are in no final state.
fn under_way(connection: &Connection, tenant: &str) -> StepResult<u64> {
    let active = connection
        .prepare_cached("SELECT count(*) FROM batches WHERE tenant = ?1 AND finished_at IS NULL")?
        .query_one([tenant], |row| row.get(0))?;
    Ok(active)
}

/// Codes that a tenant has ordered, without those that were cancelled or abandoned.
fn ordered_so_far(connection: &Connection, tenant: &str) -> StepResult<u64> {
    let ordered = connection
        .prepare_cached("SELECT ordered FROM batch_tenants WHERE tenant = ?1")?
        .query_one([tenant], |row| row.get(0))
        .optional()?;
    Ok(ordered.unwrap_or(0))
}

fn add_ordered(connection: &Connection, tenant: &str, count: u64) -> StepResult<()> {
    connection
        .prepare_cached(
            "INSERT INTO batch_tenants (tenant, ordered) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET ordered = ordered + excluded.ordered",
        )?
        .execute(params![tenant, count])?;
    Ok(())
}

/// Takes IDs for a batch and its codes that no other has. None if there will never be so many.
fn take_ids(connection: &Connection, count: u64, now: Timestamp) -> StepResult<Option<BatchId>> {
    let free: i64 = connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'code_clock_ms'")?
        .query_one([], |row| row.get(0))?;
    let ms = free.max(now.as_millisecond().saturating_sub(SNOWFLAKE_EPOCH_MS));
    let next = ms.unsigned_abs().saturating_add(BatchId::span_ms(count));
    if next > CLOCK_MS_MAX {
        return Ok(None);
    }
    connection
        .prepare_cached("UPDATE meta SET value = ?1 WHERE name = 'code_clock_ms'")?
        .execute([next])?;
    Ok(Some(BatchId::new(ms, SHARD)))
}

fn insert(
    connection: &Connection,
    id: BatchId,
    tenant: &str,
    order: &BatchOrder,
    serials: Range<u64>,
) -> StepResult<()> {
    let (derived, state, made, finished_at) = match order.ledger {
        Ledger::Stored => (false, BatchState::Queued, 0, None),
        Ledger::Derived => (true, BatchState::Completed, order.count, Some(Millis(order.now))),
    };
    connection
        .prepare_cached(
            "INSERT INTO batches (id, tenant, type_id, start, stop, chunk_serials, derived, state,
                 made, name, metadata, notify, key_id, order_key, created_at, finished_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
                 ?16)",
        )?
        .execute(params![
            id.0,
            tenant,
            order.type_id.0,
            serials.start,
            serials.end,
            order.chunk_serials,
            derived,
            state.name(),
            made,
            order.name,
            order.metadata,
            order.notify,
            order.key_id,
            order.order_key,
            Millis(order.now),
            finished_at
        ])?;
    Ok(())
}

fn insert_chunks(connection: &Connection, batch: &Batch) -> StepResult<()> {
    let mut statement =
        connection.prepare_cached("INSERT INTO chunks (batch, number) VALUES (?1, ?2)")?;
    for number in 0..batch.chunks() {
        statement.execute(params![batch.id.0, number])?;
    }
    Ok(())
}

/// Stops a batch that is under way.
pub(crate) fn cancel(
    connection: &Connection,
    id: BatchId,
    now: Timestamp,
) -> StepResult<Option<Batch>> {
    let Some(batch) = batches::find(connection, id)? else { return Ok(None) };
    if batch.state.is_final() {
        return Ok(Some(batch));
    }
    for serials in unmade(connection, &batch)? {
        let span = Span { type_id: batch.type_id, period: String::new(), serials };
        // No instance has lost them: somebody wanted it so.
        gaps::insert(connection, &span, GapReason::BatchCancelled, now, "")?;
    }
    connection.prepare_cached("DELETE FROM chunks WHERE batch = ?1")?.execute([id.0])?;
    take_off(connection, id, batch.count() - batch.made - batch.abandoned)?;
    connection
        .prepare_cached(
            "UPDATE batches SET state = ?2, dead_chunks = 0, finished_at = ?3 WHERE id = ?1",
        )?
        .execute(params![id.0, BatchState::Cancelled.name(), Millis(now)])?;
    events::tell(connection, id.0, BatchState::Cancelled, now)?;
    batches::find(connection, id)
}

/// Notes that codes of a batch will never be made, and so do not count as ordered.
pub(crate) fn take_off(connection: &Connection, id: BatchId, codes: u64) -> StepResult<()> {
    connection
        .prepare_cached(
            "UPDATE batch_tenants SET ordered = ordered - ?2
             WHERE tenant = (SELECT tenant FROM batches WHERE id = ?1)",
        )?
        .execute(params![id.0, codes])?;
    Ok(())
}

/// The serials of the chunks that are neither done nor given up, with neighbours joined.
pub(crate) fn unmade(connection: &Connection, batch: &Batch) -> StepResult<Vec<Range<u64>>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    let mut statement =
        connection.prepare_cached("SELECT number FROM chunks WHERE batch = ?1 ORDER BY number")?;
    for number in statement.query_map([batch.id.0], |row| row.get(0))? {
        let serials = batch.chunk(number?);
        match joined.last_mut() {
            Some(last) if last.end == serials.start => last.end = serials.end,
            _ => joined.push(serials),
        }
    }
    Ok(joined)
}
