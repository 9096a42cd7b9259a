//! Claiming deliveries: one statement for all receivers of a shard.

use storage::{Delivery, Result, Wanted};
use tokio_postgres::types::Type;

use super::rows::{read_content, read_small, write_limit};
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::session::Param;
use crate::time::Time;

// For each receiver the first entries of its part of the index. What others are claiming or settling
// just now is passed over, so nobody waits for anybody. As an array, the numbers are looked up one by
// one in any plan; joined, all that is pending might be read instead.
const CLAIM: &str = "
    WITH due AS MATERIALIZED (
        SELECT first.number, first.due_at, wanted.place
        FROM unnest($1::bigint[], $2::text[], $3::bigint[]) WITH ORDINALITY
            AS wanted (receiver, tenant, most, place)
        JOIN delivery_receivers AS known
            ON known.receiver = wanted.receiver AND known.tenant = wanted.tenant
        CROSS JOIN LATERAL (
            SELECT number, due_at FROM pending_deliveries
            WHERE receiver = wanted.receiver AND due_at <= $4
            ORDER BY due_at, number LIMIT wanted.most
            FOR NO KEY UPDATE SKIP LOCKED) AS first
    ), claimed AS (
        UPDATE pending_deliveries AS pending SET due_at = $5, attempts = pending.attempts + 1,
            token = pending.token + 1
        WHERE pending.number = ANY (ARRAY(SELECT number FROM due))
        RETURNING pending.number, pending.attempts, pending.token
    )
    SELECT content.number, content.receiver, content.key, content.subject, content.body,
           content.created_at, claimed.attempts, claimed.token
    FROM claimed JOIN due ON due.number = claimed.number
        JOIN deliveries AS content ON content.number = claimed.number
    ORDER BY due.place, due.due_at, due.number";

/// Repeated without knowing: what was claimed without an answer is due again when the claim ends.
pub(super) async fn claim(
    shard: &Database,
    place: usize,
    wanted: Vec<&Wanted>,
    now: Time,
    until: Time,
) -> Result<Vec<Delivery>> {
    let receivers: Vec<i64> = wanted.iter().map(|wanted| wanted.receiver.0).collect();
    let tenants: Vec<&str> = wanted.iter().map(|wanted| wanted.tenant.as_str()).collect();
    let limits: Vec<i64> = wanted.iter().map(|wanted| write_limit(wanted.limit)).collect();
    let params: [Param<'_>; 5] = [
        (&receivers, Type::INT8_ARRAY),
        (&tenants, Type::TEXT_ARRAY),
        (&limits, Type::INT8_ARRAY),
        (&now, Type::TIMESTAMPTZ),
        (&until, Type::TIMESTAMPTZ),
    ];
    let rows = shard.query(Repeat::Always, CLAIM, &params).await?;
    let deliveries = rows.iter().map(|row| {
        Ok(Delivery {
            id: PostgresStore::delivery_on(place, row.get("number")),
            content: read_content(row),
            attempt: read_small(row, "attempts")?,
            token: row.get("token"),
            created_at: row.get::<_, Time>("created_at").0,
        })
    });
    deliveries.collect()
}
