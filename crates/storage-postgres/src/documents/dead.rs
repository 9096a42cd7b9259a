//! Documents that are dead letters, and what people decide about them.

use std::cmp::Reverse;

use futures_util::future::join_all;
use storage::{DeliveryId, DocumentRecord, ReceiverId, Result, TypeId, Verdict};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::records::read;
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::outbox::{records_sql, write_limit};
use crate::session::Param;
use crate::shard_number;
use crate::time::Time;

// One step in the index for each type, and one more for each of the first ones.
const DEAD: &str = "
    SELECT dead.number FROM unnest($1::bigint[]) AS wanted (type_id)
    CROSS JOIN LATERAL (
        SELECT number, settled.type_id FROM settled_deliveries AS settled
        WHERE settled.type_id = wanted.type_id AND settled.type_id <> 0 AND state = 'dead'
          AND number < CASE WHEN wanted.type_id = $2 THEN $3 ELSE 9223372036854775807 END
        ORDER BY number DESC LIMIT $4) AS dead
    ORDER BY dead.type_id, dead.number DESC LIMIT $4";

impl PostgresStore {
    pub(super) async fn dead_of_types(
        &self,
        types: &[TypeId],
        after: Option<(TypeId, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>> {
        let shards = self.databases.iter().enumerate().filter_map(|(place, shard)| {
            let own = types.iter().filter(|id| shard_number(**id) == place);
            let own: Vec<i64> = own.map(|id| id.0).collect();
            (!own.is_empty()).then(|| dead_on(shard, place, own, after, limit))
        });
        let dead: Vec<Vec<DocumentRecord>> =
            join_all(shards).await.into_iter().collect::<Result<_>>()?;
        let mut dead: Vec<DocumentRecord> = dead.into_iter().flatten().collect();
        dead.sort_by_key(|record| (record.key.type_id, Reverse(record.delivery.id)));
        dead.truncate(limit);
        Ok(dead)
    }

    /// Not repeated without knowing: whoever decides wants to know what counted.
    pub(super) async fn decide_dead(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        verdict: Verdict,
        now: Time,
    ) -> Result<Vec<DeliveryId>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(Vec::new()) };
        let sql = match verdict {
            Verdict::Retry => "SELECT retry_documents($1, $2, $3)",
            Verdict::Abandon => "SELECT abandon_documents($1, $2, $3)",
        };
        let numbers: Vec<i64> = dead.iter().map(|id| id.number()).collect();
        let params: [Param<'_>; 3] =
            [(&type_id.0, Type::INT8), (&numbers, Type::INT8_ARRAY), (&now, Type::TIMESTAMPTZ)];
        let rows = shard.query(Repeat::Undone, sql, &params).await?;
        Ok(among(dead, &rows))
    }

    /// The same: not repeated without knowing.
    pub(super) async fn move_dead(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        sink: ReceiverId,
        now: Time,
    ) -> Result<Vec<DeliveryId>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(Vec::new()) };
        let numbers: Vec<i64> = dead.iter().map(|id| id.number()).collect();
        let params: [Param<'_>; 4] = [
            (&type_id.0, Type::INT8),
            (&numbers, Type::INT8_ARRAY),
            (&sink.0, Type::INT8),
            (&now, Type::TIMESTAMPTZ),
        ];
        let sql = "SELECT move_documents($1, $2, $3, $4)";
        Ok(among(dead, &shard.query(Repeat::Undone, sql, &params).await?))
    }
}

async fn dead_on(
    shard: &Database,
    place: usize,
    types: Vec<i64>,
    after: Option<(TypeId, DeliveryId)>,
    limit: usize,
) -> Result<Vec<DocumentRecord>> {
    let (begun, before) = after.map_or((0, 0), |(type_id, id)| (type_id.0, id.number()));
    let params: [Param<'_>; 4] = [
        (&types, Type::INT8_ARRAY),
        (&begun, Type::INT8),
        (&before, Type::INT8),
        (&write_limit(limit), Type::INT8),
    ];
    let rows = shard.query(Repeat::Always, &records_sql(DEAD, "true"), &params).await?;
    let id = |row: &Row| PostgresStore::delivery_on(place, row.get("number"));
    rows.iter().map(|row| read(row, id(row))).collect()
}

/// Those whose numbers came back.
fn among(dead: &[DeliveryId], rows: &[Row]) -> Vec<DeliveryId> {
    let mut decided: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    decided.sort_unstable();
    let is_decided = |id: &DeliveryId| decided.binary_search(&id.number()).is_ok();
    dead.iter().copied().filter(is_decided).collect()
}
