//! Pools as tables: one for each random type, shared by all instances.

mod names;
mod state;
mod table;
mod top_up;
mod withdraw;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use storage::{
    Items, PoolContents, PoolKey, PooledId, Reading, Result, SharedPools, StoreError, TopUp,
    ToppedUp, Withdrawn,
};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::session::Keep;
use crate::time::{Stamp, Time};

use state::PoolTable;
pub(crate) use state::Pools;

/// Nobody needs to know more exactly how full a fuller pool is.
const COUNT_MAX: i64 = 1_000_000;

/// How many rows are available from some time of creation on, up to a limit.
fn count_sql(table: &str) -> String {
    format!(
        "SELECT count(*) FROM (
             SELECT FROM {table} WHERE status = 'AVAILABLE' AND created_at >= $1 LIMIT $2
         ) AS available"
    )
}

impl PostgresStore {
    /// The table of a pool, which is made or adopted if it was not used before.
    async fn pool_table(&self, pool: &PoolKey) -> Result<Arc<PoolTable>> {
        if let Some(table) = self.pools.get(pool) {
            return Ok(table);
        }
        let shard = self.shard(pool.type_id)?;
        let name = table::name(shard, pool).await?;
        table::make(shard, pool, &name).await?;
        let table = self.pools.add(pool, &name);
        self.count_pool(shard, &table).await?;
        Ok(table)
    }

    async fn count_pool(&self, shard: &Database, table: &PoolTable) -> Result<u64> {
        let rows = shard
            .query_as(
                Keep::Never,
                Repeat::Always,
                &count_sql(&table.table),
                &[(&Stamp::MIN, Type::TIMESTAMPTZ), (&COUNT_MAX, Type::INT8)],
            )
            .await?;
        let level = rows.first().ok_or_else(|| corrupt("a count came to nothing"))?.get(0);
        table.lower_floor(Stamp::MIN);
        table.note_look(false);
        table.set_level(level);
        Ok(table.level())
    }
}

#[async_trait]
impl SharedPools for PostgresStore {
    async fn prepare(&self, pool: &PoolKey) -> Result<u64> {
        let known = self.pools.get(pool);
        let table = self.pool_table(pool).await?;
        match known {
            // It was counted when it was added.
            None => Ok(table.level()),
            Some(table) => match self.count_pool(self.shard(pool.type_id)?, &table).await {
                // Somebody has dropped it. It is made again.
                Err(StoreError::Corrupt(_)) => {
                    self.pools.forget(pool);
                    Ok(self.pool_table(pool).await?.level())
                }
                counted => counted,
            },
        }
    }

    async fn withdraw(&self, pool: &PoolKey, count: usize) -> Result<Withdrawn> {
        let table = self.pool_table(pool).await?;
        withdraw::withdraw(self.shard(pool.type_id)?, &table, count).await
    }

    async fn top_up(&self, pool: &PoolKey, order: TopUp) -> Result<ToppedUp> {
        let table = self.pool_table(pool).await?;
        let done = top_up::top_up(self.shard(pool.type_id)?, pool, &table, order).await?;
        if done == ToppedUp::Busy {
            self.pools.busy.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    }

    /// Not repeated without knowing: another instance may have taken the rows again since.
    async fn put_back(&self, pool: &PoolKey, items: &Items) -> Result<bool> {
        let Items::Ids(ids) = items else { return Ok(false) };
        let table = self.pool_table(pool).await?;
        withdraw::put_back(self.shard(pool.type_id)?, &table, ids).await?;
        Ok(true)
    }

    async fn find(&self, pool: &PoolKey, id: &str) -> Result<Option<PooledId>> {
        let table = self.pool_table(pool).await?;
        let sql = format!(
            "SELECT CASE WHEN status = 'TAKEN' THEN coalesce(issued_at, created_at) END
             FROM {} WHERE id_value = $1",
            table.table
        );
        let rows = self
            .shard(pool.type_id)?
            .query_as(Keep::Never, Repeat::Always, &sql, &[(&id, Type::TEXT)])
            .await?;
        let taken_at = |row: &tokio_postgres::Row| row.get::<_, Option<Time>>(0).map(|time| time.0);
        Ok(rows.first().map(|row| PooledId { taken_at: taken_at(row) }))
    }

    async fn contents(&self, _pool: &PoolKey) -> Result<Option<PoolContents>> {
        Ok(None)
    }

    fn readings(&self) -> Vec<Reading> {
        #[expect(clippy::cast_precision_loss, reason = "figures are for people and graphs")]
        let value = self.pools.busy.load(Ordering::Relaxed) as f64;
        vec![Reading {
            name: "pool_fills_busy",
            help: "Fillings of a table pool that found another instance at it",
            counter: true,
            labels: Vec::new(),
            value,
        }]
    }

    /// The connections are the store's, and are closed with it.
    async fn close(&self) {}
}
