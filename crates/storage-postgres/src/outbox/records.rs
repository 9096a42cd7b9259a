//! Deliveries on record, for people.

use storage::{Attempt, DeliveryFilter, DeliveryId, DeliveryRecord, DeliveryState, Result};
use tokio_postgres::types::Type;

use super::rows::{read_attempt, read_record, write_limit};
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::session::Param;

/// The record of deliveries whose numbers a statement chooses, without what they send. A delivery is
/// either pending or settled, by itself or with others. Every table is asked for one number after the
/// other: joined, whole tables might be read for a short list.
pub(crate) fn records_sql(chosen: &str, condition: &str) -> String {
    format!(
        "SELECT content.number, content.receiver, content.key, content.subject,
                content.created_at, content.type_id, content.period, content.serial,
                content.reference, content.key_id,
                coalesce(settled.state, CASE WHEN arrived.start IS NULL THEN 'pending'
                                             ELSE 'delivered' END) AS state,
                coalesce(pending.due_at, consigned.due_at) AS due_at,
                coalesce(settled.token, pending.token, 0) AS token,
                coalesce(pending.failures, 0) AS failures,
                coalesce(settled.settled_at, arrived.settled_at) AS settled_at,
                coalesce(settled.attempts, pending.attempts, 1) AS attempts,
                coalesce(settled.last_attempt, pending.last_attempt, arrived.attempt)
                    AS last_attempt,
                coalesce(settled.last_at, pending.last_at, arrived.at) AS last_at,
                coalesce(settled.last_us, pending.last_us, arrived.us) AS last_us,
                coalesce(settled.last_status, pending.last_status, arrived.status) AS last_status,
                coalesce(settled.last_error, pending.last_error) AS last_error
         FROM ({chosen}) AS chosen
         CROSS JOIN LATERAL (
             SELECT * FROM deliveries WHERE number = chosen.number OFFSET 0) AS content
         LEFT JOIN LATERAL (
             SELECT * FROM pending_deliveries WHERE number = chosen.number OFFSET 0) AS pending
             ON true
         LEFT JOIN LATERAL (
             SELECT * FROM settled_deliveries WHERE number = chosen.number OFFSET 0) AS settled
             ON true
         LEFT JOIN LATERAL consignment_of(chosen.number) AS consigned ON true
         LEFT JOIN LATERAL (
             SELECT *, 1 AS attempt FROM arrival_of(chosen.number)) AS arrived ON true
         WHERE {condition}
         ORDER BY content.number DESC"
    )
}

// Almost everything is delivered, so looking for that among all is quick. What failed has an index of
// its own, and of what is pending all entries of the receiver are read and put in order.
fn choice(state: Option<DeliveryState>) -> &'static str {
    match state {
        None => {
            "SELECT number FROM deliveries WHERE receiver = $1 AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Pending) => {
            "SELECT number FROM (
                 SELECT number FROM pending_deliveries WHERE receiver = $1 AND number + 0 < $2
                 ORDER BY due_at OFFSET 0) AS pending
             UNION ALL
             SELECT number FROM consignments CROSS JOIN LATERAL generate_series(start, stop - 1) AS number
             WHERE receiver = $1 AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Delivered) => {
            "SELECT content.number FROM deliveries AS content
             CROSS JOIN LATERAL (
                 SELECT FROM settled_deliveries AS settled
                 WHERE settled.number = content.number AND state = 'delivered'
                 UNION ALL
                 SELECT FROM arrival_of(content.number)) AS settled
             WHERE content.receiver = $1 AND content.number < $2
             ORDER BY content.number DESC LIMIT $3"
        }
        Some(DeliveryState::Dead) => {
            "SELECT number FROM settled_deliveries
             WHERE receiver = $1 AND state = 'dead' AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Abandoned) => {
            "SELECT number FROM settled_deliveries
             WHERE receiver = $1 AND state = 'abandoned' AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
    }
}

// It does not depend on a row, and so nothing else is read where it fails.
const IS_THE_TENANTS: &str = "
    EXISTS (SELECT FROM delivery_receivers WHERE receiver = $1 AND tenant = $4)";

const ATTEMPTS: &str = "
    SELECT attempt, at, us, status, error FROM delivery_attempts
    WHERE delivery = $1 ORDER BY at, id";

/// Deliveries to a receiver, the latest first.
pub(super) async fn list(
    shard: &Database,
    place: usize,
    filter: &DeliveryFilter,
) -> Result<Vec<DeliveryRecord>> {
    let before = filter.before.map_or(i64::MAX, DeliveryId::number);
    let params: [Param<'_>; 4] = [
        (&filter.receiver.0, Type::INT8),
        (&before, Type::INT8),
        (&write_limit(filter.limit), Type::INT8),
        (&filter.tenant, Type::TEXT),
    ];
    let rows = shard
        .query(Repeat::Always, &records_sql(choice(filter.state), IS_THE_TENANTS), &params)
        .await?;
    let records = rows
        .iter()
        .map(|row| read_record(row, PostgresStore::delivery_on(place, row.get("number"))));
    records.collect()
}

/// What a delivery sends.
pub(super) async fn body(shard: &Database, id: DeliveryId) -> Result<Option<String>> {
    let params: [Param<'_>; 1] = [(&id.number(), Type::INT8)];
    let sql = "SELECT body FROM deliveries WHERE number = $1";
    let rows = shard.query(Repeat::Always, sql, &params).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// A delivery with its failed attempts.
pub(super) async fn one(
    shard: &Database,
    id: DeliveryId,
) -> Result<Option<(DeliveryRecord, Vec<Attempt>)>> {
    let number = id.number();
    let params: [Param<'_>; 1] = [(&number, Type::INT8)];
    let rows =
        shard.query(Repeat::Always, &records_sql("SELECT $1 AS number", "true"), &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let record = read_record(row, id)?;
    let rows = shard.query(Repeat::Always, ATTEMPTS, &params).await?;
    let attempts = rows.iter().map(|row| read_attempt(row, "")).collect::<Result<_>>()?;
    Ok(Some((record, attempts)))
}
