//! What people decide about documents that are dead letters.

use storage::{DeliveryId, ReceiverId, Result, TypeId, Verdict};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::session::Param;
use crate::time::Time;

impl PostgresStore {
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

/// Those whose numbers came back.
fn among(dead: &[DeliveryId], rows: &[Row]) -> Vec<DeliveryId> {
    let mut decided: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    decided.sort_unstable();
    let is_decided = |id: &DeliveryId| decided.binary_search(&id.number()).is_ok();
    dead.iter().copied().filter(is_decided).collect()
}
