//! Orders.

use storage::{BatchId, BatchOrder, Ledger, Ordered, Result, SNOWFLAKE_EPOCH_MS};
use tokio_postgres::types::Type;

use super::rows::{columns, ledger_name, read_batch};
use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::spans::{read_serial, write_serial};
use crate::time::Time;

fn order_sql() -> String {
    format!(
        "SELECT outcome, figure, {}
         FROM (SELECT outcome, figure, (batch).*
               FROM order_batch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
                                $17)) AS ordered",
        columns()
    )
}

impl PostgresStore {
    /// The table that the first codes will be in is made along with the order, behind its commit.
    pub(super) async fn order(&self, order: &BatchOrder) -> Result<Ordered> {
        let shard = self.shard(order.type_id)?;
        let ordered = take_on_record(shard, order).await?;
        if let Ordered::Done(batch) = &ordered
            && batch.ledger == Ledger::Stored
            && !batch.state.is_final()
        {
            self.try_to_make_tables(shard, batch.type_id, batch.chunk(0)).await;
        }
        Ok(ordered)
    }
}

/// Never repeated without knowing: without a key it would be ordered twice.
async fn take_on_record(shard: &Database, order: &BatchOrder) -> Result<Ordered> {
    let ms = order.now.as_millisecond() - SNOWFLAKE_EPOCH_MS;
    // More than a number in the database can be is no limit.
    let codes_max = i64::try_from(order.codes_max).ok();
    let rows = shard
        .query(
            Repeat::Undone,
            &order_sql(),
            &[
                (&order.type_id.0, Type::INT8),
                (&order.revision, Type::INT8),
                (&write_count(order.count), Type::INT8),
                (&write_serial(order.bounds.0)?, Type::INT8),
                (&write_serial(order.bounds.1)?, Type::INT8),
                (&write_count(order.chunk_serials.max(1)), Type::INT8),
                (&ledger_name(order.ledger), Type::TEXT),
                (&order.name, Type::TEXT),
                (&order.metadata, Type::TEXT),
                (&order.key_id, Type::INT8),
                (&order.order_key, Type::TEXT),
                (&write_count(order.active_max), Type::INT8),
                (&codes_max, Type::INT8),
                (&ms, Type::INT8),
                (&write_count(BatchId::span_ms(order.count)), Type::INT8),
                (&Time::new(order.now), Type::TIMESTAMPTZ),
                (&order.notify, Type::TEXT),
            ],
        )
        .await?;
    let row = rows.first().ok_or_else(|| corrupt("an order came to nothing"))?;
    let figure = || read_serial(row.get::<_, Option<i64>>("figure").unwrap_or_default());
    match row.get("outcome") {
        "done" => {
            let batch = read_batch(row)?;
            // It may be one that was on record under the key of this order.
            Ok(if batch.is_of(order) { Ordered::Done(batch) } else { Ordered::OtherOrder })
        }
        "no_room" => Ok(Ordered::NoRoom { drawn: figure()? }),
        "too_many_active" => Ok(Ordered::TooManyActive { active: figure()? }),
        "over_quota" => Ok(Ordered::OverQuota { ordered: figure()? }),
        other => Err(corrupt(format!("an order came to {other:?}"))),
    }
}
