//! Events, until they have become deliveries.

use storage::{Batch, BatchState, DeliveryId, Event, NewDelivery, Result};
use tokio_postgres::types::Type;

use super::rows::write_limit;
use crate::PostgresStore;
use crate::batches::{columns, read_batch};
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

// The columns of an event have names of their own, because those of the batch are read along.
fn list_sql() -> String {
    format!(
        "SELECT event.*, {}
         FROM (SELECT number AS event_number, batch_id AS event_batch, state AS event_state,
                      at AS event_at, made AS event_made, abandoned AS event_abandoned,
                      dead_chunks AS event_dead_chunks, error AS event_error,
                      finished_at AS event_finished_at
               FROM events ORDER BY number LIMIT $1) AS event
         JOIN batches ON id = event_batch
         ORDER BY event_number",
        columns()
    )
}

/// The oldest events of a shard.
pub(super) async fn list(shard: &Database, place: usize, limit: usize) -> Result<Vec<Event>> {
    let params: [Param<'_>; 1] = [(&write_limit(limit), Type::INT8)];
    let rows = shard.query(Repeat::Always, &list_sql(), &params).await?;
    let events = rows.iter().map(|row| {
        let state: &str = row.get("event_state");
        let known = BatchState::ALL.into_iter().find(|known| known.name() == state);
        let batch = Batch {
            made: read_serial(row.get("event_made"))?,
            abandoned: read_serial(row.get("event_abandoned"))?,
            dead_chunks: read_serial(row.get("event_dead_chunks"))?,
            error: row.get("event_error"),
            finished_at: row.get::<_, Option<Time>>("event_finished_at").map(|time| time.0),
            ..read_batch(row)?
        };
        Ok(Event {
            id: PostgresStore::delivery_on(place, row.get("event_number")),
            batch,
            state: known
                .ok_or_else(|| corrupt(format!("an event has the unknown state {state:?}")))?,
            at: row.get::<_, Time>("event_at").0,
        })
    });
    events.collect()
}

/// Repeated without knowing: the second time finds that the event is gone, and changes nothing.
pub(super) async fn route(
    shard: &Database,
    event: DeliveryId,
    deliveries: &[NewDelivery],
    now: Time,
) -> Result<bool> {
    let receivers: Vec<i64> = deliveries.iter().map(|delivery| delivery.receiver.0).collect();
    let texts = |text: fn(&NewDelivery) -> &str| deliveries.iter().map(text).collect::<Vec<_>>();
    let rows = shard
        .query(
            Repeat::Always,
            "SELECT route_event($1, $2, $3, $4, $5, $6)",
            &[
                (&event.number(), Type::INT8),
                (&receivers, Type::INT8_ARRAY),
                (&texts(|delivery| &delivery.key), Type::TEXT_ARRAY),
                (&texts(|delivery| &delivery.subject), Type::TEXT_ARRAY),
                (&texts(|delivery| &delivery.body), Type::TEXT_ARRAY),
                (&now, Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}
