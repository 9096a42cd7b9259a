//! The issue log: finding an issue again.

use storage::{IssueRecord, Result, TypeId, packing};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::spans::read_serial;

// One step in the index for each period, however many rows there are.
const PERIODS: &str = "
    WITH RECURSIVE periods (period) AS (
        SELECT min(period) FROM issue_log WHERE type_id = $1
        UNION ALL
        SELECT (SELECT min(later.period) FROM issue_log AS later
                WHERE later.type_id = $1 AND later.period > periods.period)
        FROM periods WHERE periods.period IS NOT NULL
    )
    SELECT period FROM periods WHERE period IS NOT NULL";

// One short range of the index for each class. In a class every row that can hold the serial begins
// within a known distance before it.
const FIND: &str = "
    SELECT row.start, row.entries
    FROM unnest($4::smallint[], $5::bigint[]) AS class (width_log2, start_min)
    CROSS JOIN LATERAL (
        SELECT start, entries FROM issue_log
        WHERE type_id = $1 AND period = $2 AND width_log2 = class.width_log2
          AND start BETWEEN class.start_min AND $3 AND stop > $3
        OFFSET 0) AS row
    ORDER BY row.start";

/// Every class, and where a row of it that holds the serial begins at the earliest.
fn classes(serial: i64) -> (Vec<i16>, Vec<i64>) {
    (0..63_i16)
        .map(|width_log2| {
            let width_max = i64::try_from((2_u64 << width_log2) - 1).unwrap_or(i64::MAX);
            (width_log2, (serial - width_max).saturating_add(1).max(0))
        })
        .unzip()
}

async fn find_in_period(
    shard: &Database,
    type_id: TypeId,
    period: &str,
    serial: i64,
    found: &mut Vec<IssueRecord>,
) -> Result<()> {
    let (widths, starts) = classes(serial);
    let rows = shard
        .query(
            Repeat::Always,
            FIND,
            &[
                (&type_id.0, Type::INT8),
                (&period, Type::TEXT),
                (&serial, Type::INT8),
                (&widths, Type::INT2_ARRAY),
                (&starts, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let serial = read_serial(serial)?;
    for row in &rows {
        let start = read_serial(row.get("start"))?;
        let issues = packing::decode(start, row.get("entries"))
            .ok_or_else(|| corrupt(format!("the log of type {} at serial {start}", type_id.0)))?;
        for issue in issues {
            let record = IssueRecord { period: period.to_owned(), issue };
            let holds = (record.issue.first..=record.issue.last).contains(&serial);
            // A group that was written twice with different lengths is in two rows.
            if holds && !found.contains(&record) {
                found.push(record);
            }
        }
    }
    Ok(())
}

impl PostgresStore {
    pub(crate) async fn issues_at(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<IssueRecord>> {
        let mut found = Vec::new();
        let (Ok(serial), Some(shard)) = (i64::try_from(serial), self.shard_of(type_id)) else {
            return Ok(found);
        };
        let periods = match period {
            Some(period) => vec![period.to_owned()],
            None => shard
                .query(Repeat::Always, PERIODS, &[(&type_id.0, Type::INT8)])
                .await?
                .iter()
                .map(|row| row.get(0))
                .collect(),
        };
        for period in &periods {
            find_in_period(shard, type_id, period, serial, &mut found).await?;
        }
        Ok(found)
    }
}
