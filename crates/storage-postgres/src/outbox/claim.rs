//! Claiming deliveries: one statement for all receivers of a shard, behind one that sees to it that all of
//! them can be claimed.

use storage::{Delivery, Result, Wanted};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::rows::{read_delivery, write_limit};
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error;
use crate::session::Param;
use crate::time::Time;

// For each receiver the first entries of its part of the index. What others are claiming or settling
// just now is passed over, so nobody waits for anybody. As an array, the numbers are looked up one by
// one in any plan; joined, all that is pending might be read instead. Where the order counts, a function
// chooses, by number. What is large comes in several claims, so that each ends in time.
const CLAIM: &str = "
    WITH wanted AS MATERIALIZED (
        SELECT asked.* FROM unnest($1::bigint[], $2::text[], $3::bigint[], $6::boolean[])
            WITH ORDINALITY AS asked (receiver, tenant, most, in_order, place)
        JOIN delivery_receivers AS known
            ON known.receiver = asked.receiver AND known.tenant = asked.tenant
    ), in_any_order AS MATERIALIZED (
        SELECT first.number, first.due_at, wanted.place
        FROM wanted CROSS JOIN LATERAL (
            SELECT number, due_at FROM pending_deliveries
            WHERE receiver = wanted.receiver AND due_at <= $4
            ORDER BY due_at, number + 0 LIMIT wanted.most
            FOR NO KEY UPDATE SKIP LOCKED) AS first
        WHERE NOT wanted.in_order
    ), in_order AS MATERIALIZED (
        SELECT first.number, wanted.place
        FROM wanted CROSS JOIN LATERAL lock_in_order(wanted.receiver, wanted.most, $4)
            AS first (number)
        WHERE wanted.in_order
    ), chosen AS MATERIALIZED (
        SELECT number, due_at, place FROM in_any_order
        UNION ALL
        SELECT number, '-infinity', place FROM in_order
    ), weighed AS MATERIALIZED (
        SELECT chosen.number, chosen.due_at, chosen.place,
               sum(content.bytes) OVER before_and_this - content.bytes AS bytes_before
        FROM chosen CROSS JOIN LATERAL (
            SELECT octet_length(body)::bigint AS bytes FROM deliveries
            WHERE deliveries.number = chosen.number OFFSET 0) AS content
        WINDOW before_and_this AS (
            PARTITION BY chosen.place ORDER BY chosen.due_at, chosen.number)
    ), due AS MATERIALIZED (
        SELECT number, due_at, place FROM weighed WHERE bytes_before < $7
    ), claimed AS (
        UPDATE pending_deliveries AS pending SET due_at = $5, attempts = pending.attempts + 1,
            token = pending.token + 1
        WHERE pending.number = ANY (ARRAY(SELECT number FROM due))
        RETURNING pending.number, pending.attempts, pending.failures, pending.token
    )
    SELECT content.number, content.receiver, content.key, content.subject, content.body,
           content.created_at, content.type_id, content.period, content.serial, claimed.attempts,
           claimed.failures, claimed.token
    FROM claimed JOIN due ON due.number = claimed.number
        JOIN deliveries AS content ON content.number = claimed.number
    ORDER BY due.place, due.due_at, due.number";

/// A claim ends behind the delivery that goes beyond this, in all and for each of the receivers.
const CLAIM_BYTES_MAX: i64 = 16 << 20;

// What set out together is looked at one by one when nobody has said how it went.
const BREAK_UP: &str = "SELECT break_up_due($1, $2, $3)";

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
    let in_order: Vec<bool> = wanted.iter().map(|wanted| wanted.ordered).collect();
    let bytes_max = CLAIM_BYTES_MAX / i64::try_from(wanted.len().max(1)).unwrap_or(i64::MAX);
    let broken_up: [Param<'_>; 3] =
        [(&receivers, Type::INT8_ARRAY), (&in_order, Type::BOOL_ARRAY), (&now, Type::TIMESTAMPTZ)];
    shard.query(Repeat::Always, BREAK_UP, &broken_up).await?;
    let params: [Param<'_>; 7] = [
        (&receivers, Type::INT8_ARRAY),
        (&tenants, Type::TEXT_ARRAY),
        (&limits, Type::INT8_ARRAY),
        (&now, Type::TIMESTAMPTZ),
        (&until, Type::TIMESTAMPTZ),
        (&in_order, Type::BOOL_ARRAY),
        (&bytes_max, Type::INT8),
    ];
    let rows = shard.query(Repeat::Always, CLAIM, &params).await.map_err(error::heard_of)?;
    let number = |row: &Row| PostgresStore::delivery_on(place, row.get("number"));
    rows.iter().map(|row| read_delivery(row, number(row), row.get("body"))).collect()
}
