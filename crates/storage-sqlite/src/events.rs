//! Events: batches that came to a state which others may want to know of.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{Batch, BatchState, Event, NewDelivery};

use crate::batches::{self, limit, read_state};
use crate::deliveries;
use crate::error::StepResult;
use crate::outbox::{delivery_id, number};
use crate::time::Millis;

const LIST: &str = "
    SELECT batches.*, events.number AS event, events.state AS came_to, events.at AS came_at,
           events.made AS then_made, events.abandoned AS then_abandoned,
           events.dead_chunks AS then_dead_chunks, events.error AS then_error,
           events.finished_at AS then_finished_at
    FROM events CROSS JOIN batches ON batches.id = events.batch
    ORDER BY events.number LIMIT ?1";

/// Tells that a batch came to a state, if that is one to be told of.
pub(crate) fn tell(
    connection: &Connection,
    batch: i64,
    state: BatchState,
    now: Timestamp,
) -> StepResult<()> {
    match state {
        BatchState::Queued | BatchState::Running => Ok(()),
        BatchState::Completed | BatchState::NeedsAttention | BatchState::Cancelled => {
            connection
                .prepare_cached(
                    "INSERT INTO events (batch, state, at, made, abandoned, dead_chunks, error,
                                         finished_at)
                     SELECT id, ?2, ?3, made, abandoned, dead_chunks, error, finished_at
                     FROM batches WHERE id = ?1",
                )?
                .execute(params![batch, state.name(), Millis(now)])?;
            Ok(())
        }
    }
}

fn read_row(row: &Row<'_>) -> StepResult<Event> {
    let batch = Batch {
        made: row.get("then_made")?,
        abandoned: row.get("then_abandoned")?,
        dead_chunks: row.get("then_dead_chunks")?,
        error: row.get("then_error")?,
        finished_at: row.get::<_, Option<Millis>>("then_finished_at")?.map(|time| time.0),
        ..batches::read_row(row)?
    };
    Ok(Event {
        id: delivery_id(row.get("event")?),
        batch,
        state: read_state(&row.get::<_, String>("came_to")?)?,
        at: row.get::<_, Millis>("came_at")?.0,
    })
}

/// The oldest events.
pub(crate) fn list(connection: &Connection, most: usize) -> StepResult<Vec<Event>> {
    connection.prepare_cached(LIST)?.query_and_then([limit(most)], read_row)?.collect()
}

/// Makes deliveries of an event.
pub(crate) fn route(
    connection: &Connection,
    event: storage::DeliveryId,
    messages: &[NewDelivery],
    now: Timestamp,
) -> StepResult<bool> {
    let batch: Option<i64> = connection
        .prepare_cached("DELETE FROM events WHERE number = ?1 RETURNING batch")?
        .query_one([number(event)], |row| row.get(0))
        .optional()?;
    let Some(batch) = batch else { return Ok(false) };
    let tenant: String = connection
        .prepare_cached("SELECT tenant FROM batches WHERE id = ?1")?
        .query_one([batch], |row| row.get(0))?;
    for message in messages {
        deliveries::insert(connection, &tenant, message, now)?;
    }
    Ok(true)
}
