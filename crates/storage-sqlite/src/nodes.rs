//! The one snowflake node of the embedded store.

use async_trait::async_trait;
use rusqlite::params;
use storage::{NodeLease, NodeStore, Result, StoreError};

use crate::SqliteStore;

/// One process, one node. The directory's lock sees to it.
const NODE: u16 = 0;

#[async_trait]
impl NodeStore for SqliteStore {
    async fn lease_node(&self, instance: &str) -> Result<NodeLease> {
        let instance = instance.to_owned();
        self.writer
            .run(move |connection| {
                let high_water_ms = connection
                    .prepare_cached(
                        "INSERT INTO nodes (node, instance) VALUES (?1, ?2)
                         ON CONFLICT DO UPDATE SET instance = excluded.instance
                         RETURNING high_water_ms",
                    )?
                    .query_one(params![NODE, instance], |row| row.get(0))?;
                Ok(NodeLease { node: NODE, high_water_ms })
            })
            .await
    }

    async fn reserve_time(&self, node: u16, instance: &str, high_water_ms: i64) -> Result<()> {
        let instance = instance.to_owned();
        self.writer
            .run(move |connection| {
                let changed = connection
                    .prepare_cached(
                        "UPDATE nodes SET high_water_ms = max(ifnull(high_water_ms, ?3), ?3)
                         WHERE node = ?1 AND instance = ?2",
                    )?
                    .execute(params![node, instance, high_water_ms])?;
                if changed == 0 {
                    return Err(StoreError::NotFound("node").into());
                }
                Ok(())
            })
            .await
    }
}
