//! Serials that will never carry anything.

use storage::{Gap, GapReason, Page, Result, TypeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::spans::read_span;
use crate::time::Time;

const LIST: &str = "
    SELECT id, type_id, period, start, stop, reason, detected_at, instance FROM gaps
    WHERE type_id = $1 AND id > $2 ORDER BY id LIMIT $3";

// Gaps of one counter do not overlap, so the first one that ends behind the serial is the only one
// that can hold it.
const FIND: &str = "
    SELECT gap.id, gap.type_id, gap.period, gap.start, gap.stop, gap.reason, gap.detected_at,
           gap.instance
    FROM counters CROSS JOIN LATERAL (
        SELECT * FROM gaps
        WHERE gaps.type_id = counters.type_id AND gaps.period = counters.period
          AND gaps.stop > $3
        ORDER BY gaps.stop LIMIT 1) AS gap
    WHERE counters.type_id = $1 AND ($2::text IS NULL OR counters.period = $2)
      AND gap.start <= $3
    ORDER BY counters.period";

pub(crate) fn read_gap(row: &Row) -> Result<Gap> {
    let name: &str = row.get("reason");
    let reason = GapReason::ALL.into_iter().find(|reason| reason.name() == name);
    Ok(Gap {
        id: row.get("id"),
        span: read_span(row)?,
        reason: reason.ok_or_else(|| corrupt(format!("a gap has the unknown reason {name:?}")))?,
        detected_at: row.get::<_, Time>("detected_at").0,
        instance: row.get("instance"),
    })
}

impl PostgresStore {
    /// The gaps of a type, oldest first.
    pub(crate) async fn gaps(&self, type_id: TypeId, page: Page) -> Result<Vec<Gap>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(Vec::new()) };
        let rows = shard
            .query(
                Repeat::Always,
                LIST,
                &[
                    (&type_id.0, Type::INT8),
                    (&page.after, Type::INT8),
                    (&i64::from(page.limit), Type::INT8),
                ],
            )
            .await?;
        rows.iter().map(read_gap).collect()
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
                FIND,
                &[(&type_id.0, Type::INT8), (&period, Type::TEXT), (&serial, Type::INT8)],
            )
            .await?;
        rows.iter().map(read_gap).collect()
    }
}
