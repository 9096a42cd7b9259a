//! Serials that will never carry anything.

use jiff::Timestamp;
use storage::{Gap, GapFilter, GapReason, GapTotals, Result, SignOff, TypeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::session::Param;
use crate::spans::{read_serial, read_span};
use crate::time::Time;

/// Every column that is read of a gap. They are named, because a later release may add some while this
/// one has its statements prepared.
pub(crate) const COLUMNS: &str = "id, type_id, period, start, stop, reason, detected_at, lost_at,
    instance, closed_at, signed_by, signed_at, sign_note";

// What a filter lets through. Serials are below 2^63, so bounds that are not given let all through.
const MATCHES: &str = "
    type_id = $1 AND (cardinality($2::text[]) = 0 OR reason = ANY ($2)) AND stop > $3
    AND start <= $4 AND ($5 OR closed_at IS NULL)";

// Open gaps of one counter do not overlap, so the first one that ends behind the serial is the only
// one that can hold it. There are few closed ones, and any number of them may hold it.
fn find_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM (
             SELECT gap.* FROM counters CROSS JOIN LATERAL (
                 SELECT * FROM gaps
                 WHERE gaps.type_id = counters.type_id AND gaps.period = counters.period
                   AND gaps.stop > $3 AND gaps.closed_at IS NULL
                 ORDER BY gaps.stop LIMIT 1) AS gap
             WHERE counters.type_id = $1 AND gap.start <= $3
             UNION ALL
             SELECT * FROM gaps
             WHERE type_id = $1 AND int8range(start, stop) @> $3::bigint AND closed_at IS NOT NULL
         ) AS gaps
         WHERE $2::text IS NULL OR period = $2
         ORDER BY period, id"
    )
}

fn read_time(row: &Row, column: &str) -> Option<Timestamp> {
    row.get::<_, Option<Time>>(column).map(|time| time.0)
}

pub(crate) fn read_gap(row: &Row) -> Result<Gap> {
    let name: &str = row.get("reason");
    let reason = GapReason::ALL.into_iter().find(|reason| reason.name() == name);
    let sign_off = read_time(row, "signed_at").map(|at| SignOff {
        key_id: row.get::<_, Option<i64>>("signed_by").unwrap_or_default(),
        at,
        note: row.get::<_, Option<String>>("sign_note").unwrap_or_default(),
    });
    Ok(Gap {
        id: row.get("id"),
        span: read_span(row)?,
        reason: reason.ok_or_else(|| corrupt(format!("a gap has the unknown reason {name:?}")))?,
        detected_at: row.get::<_, Time>("detected_at").0,
        lost_at: read_time(row, "lost_at"),
        instance: row.get("instance"),
        closed_at: read_time(row, "closed_at"),
        sign_off,
    })
}

/// A bound for the database, which has signed numbers only.
fn write_bound(serial: u64) -> i64 {
    i64::try_from(serial).unwrap_or(i64::MAX)
}

/// Runs a statement about the gaps that a filter lets through, whose own parameters begin with `$6`.
async fn query(
    shard: &Database,
    sql: &str,
    filter: &GapFilter,
    more: &[Param<'_>],
) -> Result<Vec<Row>> {
    let reasons: Vec<&str> = filter.reasons.iter().map(|reason| reason.name()).collect();
    let from = filter.from.map_or(-1, write_bound);
    let to = filter.to.map_or(i64::MAX, write_bound);
    let mut params: Vec<Param<'_>> = vec![
        (&filter.type_id.0, Type::INT8),
        (&reasons, Type::TEXT_ARRAY),
        (&from, Type::INT8),
        (&to, Type::INT8),
        (&filter.with_closed, Type::BOOL),
    ];
    params.extend_from_slice(more);
    shard.query(Repeat::Always, sql, &params).await
}

impl PostgresStore {
    /// The gaps of a type, oldest first.
    pub(crate) async fn gaps(&self, filter: &GapFilter) -> Result<Vec<Gap>> {
        let Some(shard) = self.shard_of(filter.type_id) else { return Ok(Vec::new()) };
        let sql =
            format!("SELECT {COLUMNS} FROM gaps WHERE {MATCHES} AND id > $6 ORDER BY id LIMIT $7");
        let limit = i64::from(filter.page.limit);
        let page: [Param<'_>; 2] = [(&filter.page.after, Type::INT8), (&limit, Type::INT8)];
        let rows = query(shard, &sql, filter, &page).await?;
        rows.iter().map(read_gap).collect()
    }

    /// How many gaps match.
    pub(crate) async fn gap_totals(&self, filter: &GapFilter) -> Result<GapTotals> {
        let Some(shard) = self.shard_of(filter.type_id) else { return Ok(GapTotals::default()) };
        let sql = format!(
            "SELECT count(*), coalesce(sum(stop - start), 0)::bigint FROM gaps WHERE {MATCHES}"
        );
        let rows = query(shard, &sql, filter, &[]).await?;
        let row = rows.first().ok_or_else(|| corrupt("a count came to nothing"))?;
        Ok(GapTotals { gaps: read_serial(row.get(0))?, serials: read_serial(row.get(1))? })
    }

    /// Some gaps, by their numbers.
    pub(crate) async fn gaps_numbered(shard: &Database, numbers: &[i64]) -> Result<Vec<Gap>> {
        let sql = format!("SELECT {COLUMNS} FROM gaps WHERE id = ANY ($1) ORDER BY id");
        let rows = shard.query(Repeat::Always, &sql, &[(&numbers, Type::INT8_ARRAY)]).await?;
        rows.iter().map(read_gap).collect()
    }

    /// Records that somebody has accepted a gap. The first one stays, so doing it twice is the same as
    /// once.
    pub(crate) async fn accept_gap(
        &self,
        type_id: TypeId,
        gap: i64,
        sign_off: &SignOff,
    ) -> Result<Option<Gap>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(None) };
        let sql = format!(
            "UPDATE gaps SET signed_by = coalesce(signed_by, $3), signed_at = coalesce(signed_at, $4),
                 sign_note = coalesce(sign_note, $5)
             WHERE id = $1 AND type_id = $2 RETURNING {COLUMNS}"
        );
        let rows = shard
            .query(
                Repeat::Always,
                &sql,
                &[
                    (&gap, Type::INT8),
                    (&type_id.0, Type::INT8),
                    (&sign_off.key_id, Type::INT8),
                    (&Time::new(sign_off.at), Type::TIMESTAMPTZ),
                    (&sign_off.note, Type::TEXT),
                ],
            )
            .await?;
        rows.first().map(read_gap).transpose()
    }

    /// The gaps that hold a serial.
    pub(crate) async fn gaps_at(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Gap>> {
        let (Ok(serial), Some(shard)) = (i64::try_from(serial), self.shard_of(type_id)) else {
            return Ok(Vec::new());
        };
        let rows = shard
            .query(
                Repeat::Always,
                &find_sql(),
                &[(&type_id.0, Type::INT8), (&period, Type::TEXT), (&serial, Type::INT8)],
            )
            .await?;
        rows.iter().map(read_gap).collect()
    }
}
