//! Documents that set out together, and those that have arrived together: a row for a run of numbers
//! instead of one for each.

use storage::{Attempt, Next, Outcome, Result};
use tokio_postgres::types::Type;

use super::rows::write_micros;
use crate::database::{Database, Repeat};
use crate::session::Param;
use crate::time::Time;

/// The token of claims on what set out together. Other claims have greater ones.
pub(crate) const TOKEN: i64 = 0;

/// The longest run that is one row.
pub(crate) const RUN_MAX: usize = 10_000;

// The consignments of a run begin within it, but for the one that has its first number. What is left of them
// stays. The parts of a run that were on their way have arrived.
const SETTLE: &str = "
    WITH arrived AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::bigint[],
                             $5::integer[]) AS run (start, stop, at, us, status)
    ), taken AS (
        DELETE FROM consignments WHERE start = ANY (ARRAY(
            SELECT within.start FROM arrived CROSS JOIN LATERAL (
                SELECT start FROM consignments
                WHERE start > arrived.start AND start < arrived.stop OFFSET 0) AS within
            UNION ALL
            SELECT first.start
            FROM arrived CROSS JOIN LATERAL consignment_of(arrived.start) AS first))
        RETURNING start, stop, receiver, type_id, due_at
    ), left_over AS (
        INSERT INTO consignments (start, stop, receiver, type_id, due_at)
        SELECT lower(run), upper(run), receiver, type_id, due_at
        FROM taken CROSS JOIN LATERAL unnest(
            int8multirange(int8range(start, stop))
            - (SELECT range_agg(int8range(start, stop)) FROM arrived)) AS run
    )
    INSERT INTO arrivals (start, stop, settled_at, at, us, status)
    SELECT lower(run), upper(run), $6, at, us, status
    FROM arrived CROSS JOIN LATERAL unnest(
        int8multirange(int8range(start, stop))
        * (SELECT coalesce(range_agg(int8range(start, stop)), '{}') FROM taken)) AS run
    RETURNING start, stop";

/// Whether this is about something that set out with others and has arrived.
pub(super) fn has_arrived(outcome: &Outcome) -> bool {
    outcome.token == TOKEN && outcome.next == Next::Delivered && outcome.attempt.number == 1
}

/// Settles what has arrived, in order of numbers. Returns those that counted.
///
/// Repeated without knowing: the second time finds nothing on its way, and changes nothing.
pub(super) async fn settle(shard: &Database, arrived: &[&Outcome], now: Time) -> Result<Vec<i64>> {
    if arrived.is_empty() {
        return Ok(Vec::new());
    }
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    let (mut began, mut micros, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
    let number = |outcome: &Outcome| outcome.delivery.number();
    let is_next =
        |a: &&Outcome, b: &&Outcome| number(a) + 1 == number(b) && is_same(&a.attempt, &b.attempt);
    for run in arrived.chunk_by(is_next).flat_map(|run| run.chunks(RUN_MAX)) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        starts.push(number(first));
        stops.push(number(last) + 1);
        began.push(Time::new(first.attempt.at));
        micros.push(write_micros(first.attempt.duration));
        statuses.push(first.attempt.status.map(i32::from));
    }
    let params: [Param<'_>; 6] = [
        (&starts, Type::INT8_ARRAY),
        (&stops, Type::INT8_ARRAY),
        (&began, Type::TIMESTAMPTZ_ARRAY),
        (&micros, Type::INT8_ARRAY),
        (&statuses, Type::INT4_ARRAY),
        (&now, Type::TIMESTAMPTZ),
    ];
    let rows = shard.query(Repeat::Always, SETTLE, &params).await?;
    Ok(rows.iter().flat_map(|row| row.get::<_, i64>(0)..row.get::<_, i64>(1)).collect())
}

/// Whether two attempts went the same way.
fn is_same(a: &Attempt, b: &Attempt) -> bool {
    (a.at, a.duration, a.status) == (b.at, b.duration, b.status)
}

/// Gives deliveries that set out with others rows of their own, and those beside them.
///
/// Repeated without knowing: the second time there is nothing to do.
pub(super) async fn break_up(shard: &Database, numbers: &[i64]) -> Result<()> {
    let params: [Param<'_>; 1] = [(&numbers, Type::INT8_ARRAY)];
    shard.query(Repeat::Always, "SELECT break_up_around($1)", &params).await?;
    Ok(())
}
