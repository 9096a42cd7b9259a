//! Instances: which of them are alive, and the snowflake node that each of them holds.

use std::time::Duration;

use async_trait::async_trait;

use crate::Result;

/// Remembers which instances are alive. Time is the store's own: the clocks of instances differ.
#[async_trait]
pub trait InstanceStore {
    /// Makes an instance known for as long as the lease, and gives it the lowest snowflake node
    /// that no living instance holds. Who is known already keeps its node.
    async fn join(&self, instance: &str, lease: Duration) -> Result<u16>;

    /// Renews the lease from now on. False if the instance is no longer known: somebody found that
    /// its lease had run out. Its node may be another's by now, and it has to join again.
    async fn renew(&self, instance: &str, lease: Duration) -> Result<bool>;

    /// Forgets an instance that has given back what it held. Its node is free at once.
    async fn leave(&self, instance: &str) -> Result<()>;
}
