//! Which instances are alive, by the database's clock.

use std::time::Duration;

use async_trait::async_trait;
use storage::{InstanceStore, Result, StoreError};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;

// A row without a node is an instance that is gone: its node is another's.
const RENEW: &str = "
    UPDATE instances SET expires_at = clock_timestamp() + $2 * interval '1 millisecond',
        seen_at = clock_timestamp()
    WHERE name = $1 AND node IS NOT NULL RETURNING name";

/// A lease for the database. One that is too long to count is as good as endless.
fn millis(lease: Duration) -> i64 {
    // A hundred years, which a time in the database can still hold.
    const MAX: i64 = 100 * 365 * 24 * 3_600_000;
    i64::try_from(lease.as_millis()).map_or(MAX, |millis| millis.min(MAX))
}

#[async_trait]
impl InstanceStore for PostgresStore {
    async fn join(&self, instance: &str, lease: Duration) -> Result<u16> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT join_instance($1, $2)",
                &[(&instance, Type::TEXT), (&millis(lease), Type::INT8)],
            )
            .await?;
        let node = rows.first().and_then(|row| row.get::<_, Option<i16>>(0));
        node.and_then(|node| u16::try_from(node).ok())
            .ok_or_else(|| StoreError::Unavailable("all 1024 node numbers are taken".to_owned()))
    }

    async fn renew(&self, instance: &str, lease: Duration) -> Result<bool> {
        let rows = self
            .catalogue()
            .query(Repeat::Always, RENEW, &[(&instance, Type::TEXT), (&millis(lease), Type::INT8)])
            .await?;
        Ok(!rows.is_empty())
    }

    async fn leave(&self, instance: &str) -> Result<()> {
        self.catalogue()
            .query(
                Repeat::Always,
                "DELETE FROM instances WHERE name = $1",
                &[(&instance, Type::TEXT)],
            )
            .await?;
        Ok(())
    }
}
