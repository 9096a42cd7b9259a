//! Snowflake nodes: no two generators share one, and none goes back in time.

use async_trait::async_trait;

use crate::Result;

/// A node number that this instance holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLease {
    /// The number.
    pub node: u16,
    /// The latest time, in milliseconds since 1970, that an ID of this node may carry already.
    pub high_water_ms: Option<i64>,
}

/// Remembers which node numbers are taken and how far each has come.
#[async_trait]
pub trait NodeStore {
    /// Takes a node number for this instance.
    async fn lease_node(&self, instance: &str) -> Result<NodeLease>;

    /// Reserves time up to and including `high_water_ms` for a node that this instance holds,
    /// durably, before it returns. Never goes back.
    async fn reserve_time(&self, node: u16, instance: &str, high_water_ms: i64) -> Result<()>;
}
