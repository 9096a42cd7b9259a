//! Documents on record.

use storage::{DeliveryId, DeliveryState, DocumentFilter, DocumentRecord, Result, TypeId};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::outbox::{read_document, read_record, records_sql, write_limit};
use crate::session::Param;
use crate::spans::write_serial;

// A counter has a row for each period, so there is one step in the index for each of them.
const AT_SERIAL: &str = "
    SELECT document.number FROM counters CROSS JOIN LATERAL (
        SELECT number FROM deliveries
        WHERE deliveries.type_id = counters.type_id AND deliveries.period = counters.period
          AND deliveries.serial = $3) AS document
    WHERE counters.type_id = $1 AND ($2::text IS NULL OR counters.period = $2)";

const IDS: &str = "
    SELECT coalesce(document.key, held.id)
    FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (period, serial, place)
    LEFT JOIN LATERAL (
        SELECT key FROM deliveries
        WHERE type_id = $1 AND deliveries.period = wanted.period
          AND deliveries.serial = wanted.serial OFFSET 0) AS document ON true
    LEFT JOIN LATERAL (
        SELECT id FROM reservations
        WHERE type_id = $1 AND reservations.period = wanted.period
          AND reservations.serial = wanted.serial OFFSET 0) AS held ON true
    ORDER BY wanted.place";

// As for deliveries: almost everything is delivered, and what failed has an index of its own. What is
// pending is looked for with every receiver, of which there are few.
fn choice(state: Option<DeliveryState>) -> &'static str {
    match state {
        None => {
            "SELECT number FROM deliveries WHERE type_id = $1 AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Pending) => {
            "SELECT latest.number FROM delivery_receivers AS sink CROSS JOIN LATERAL (
                 SELECT number FROM pending_deliveries
                 WHERE receiver = sink.receiver AND type_id = $1 AND number + 0 < $2
                 ORDER BY number + 0 DESC LIMIT $3) AS latest
             UNION ALL
             SELECT number FROM delivery_receivers AS sink CROSS JOIN LATERAL (
                 SELECT start, stop FROM consignments
                 WHERE receiver = sink.receiver AND type_id = $1 OFFSET 0) AS together
             CROSS JOIN LATERAL generate_series(start, stop - 1) AS number
             WHERE number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Delivered) => {
            "SELECT content.number FROM deliveries AS content
             CROSS JOIN LATERAL (
                 SELECT FROM settled_deliveries AS settled
                 WHERE settled.number = content.number AND state = 'delivered'
                 UNION ALL
                 SELECT FROM arrival_of(content.number)) AS settled
             WHERE content.type_id = $1 AND content.number < $2
             ORDER BY content.number DESC LIMIT $3"
        }
        Some(DeliveryState::Dead) => {
            "SELECT number FROM settled_deliveries
             WHERE type_id = $1 AND type_id <> 0 AND state = 'dead' AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
        Some(DeliveryState::Abandoned) => {
            "SELECT number FROM settled_deliveries
             WHERE type_id = $1 AND type_id <> 0 AND state = 'abandoned' AND number < $2
             ORDER BY number DESC LIMIT $3"
        }
    }
}

/// A document of a type.
fn read_of(row: &Row, type_id: TypeId) -> Result<DocumentRecord> {
    let shard = type_id.0.rem_euclid(crate::NUMBER_STEP);
    let shard = u16::try_from(shard).map_err(|_| corrupt("a shard has a strange number"))?;
    read(row, DeliveryId::new(row.get("number"), shard))
}

/// A document.
pub(super) fn read(row: &Row, id: DeliveryId) -> Result<DocumentRecord> {
    let key = read_document(row)?;
    Ok(DocumentRecord {
        key: key.ok_or_else(|| corrupt("a document has no number"))?,
        reference: row.get("reference"),
        key_id: row.get::<_, Option<i64>>("key_id").unwrap_or_default(),
        delivery: read_record(row, id)?,
    })
}

impl PostgresStore {
    /// A document by its number.
    pub(super) async fn documents_at(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<DocumentRecord>> {
        let (Ok(serial), Some(shard)) = (i64::try_from(serial), self.shard_of(type_id)) else {
            return Ok(Vec::new());
        };
        let params: [Param<'_>; 3] =
            [(&type_id.0, Type::INT8), (&period, Type::TEXT), (&serial, Type::INT8)];
        let rows = shard.query(Repeat::Always, &records_sql(AT_SERIAL, "true"), &params).await?;
        let mut found: Vec<DocumentRecord> =
            rows.iter().map(|row| read_of(row, type_id)).collect::<Result<_>>()?;
        found.sort_by(|a, b| a.key.period.cmp(&b.key.period));
        Ok(found)
    }

    /// The IDs of numbers, where they are on record.
    pub(super) async fn ids_at(
        &self,
        type_id: TypeId,
        numbers: &[(String, u64)],
    ) -> Result<Vec<Option<String>>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(vec![None; numbers.len()]) };
        let periods: Vec<&str> = numbers.iter().map(|(period, _)| period.as_str()).collect();
        let serials = numbers.iter().map(|(_, serial)| write_serial(*serial));
        let serials = serials.collect::<Result<Vec<_>>>()?;
        let params: [Param<'_>; 3] =
            [(&type_id.0, Type::INT8), (&periods, Type::TEXT_ARRAY), (&serials, Type::INT8_ARRAY)];
        let rows = shard.query(Repeat::Always, IDS, &params).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Documents of a type, the latest first.
    pub(super) async fn list_documents(
        &self,
        filter: &DocumentFilter,
    ) -> Result<Vec<DocumentRecord>> {
        let Some(shard) = self.shard_of(filter.type_id) else { return Ok(Vec::new()) };
        let before = filter.before.map_or(i64::MAX, DeliveryId::number);
        let params: [Param<'_>; 3] = [
            (&filter.type_id.0, Type::INT8),
            (&before, Type::INT8),
            (&write_limit(filter.limit), Type::INT8),
        ];
        let sql = records_sql(choice(filter.state), "true");
        let rows = shard.query(Repeat::Always, &sql, &params).await?;
        rows.iter().map(|row| read_of(row, filter.type_id)).collect()
    }
}
