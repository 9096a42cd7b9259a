//! The pools, as the rest of the service sees them.

use std::sync::Arc;

use async_trait::async_trait;
use redis::Pipeline;
use storage::{
    Items, PoolContents, PoolKey, PooledId, Reading, Result, SharedPools, StoreError, TopUp,
    ToppedUp, Withdrawn, pool_holder,
};

use crate::SharedRedis;
use crate::error::Trouble;
use crate::withdraw::{read_length, read_serials};
use crate::{refill, withdraw};

/// Serials that are read at a time when all are wanted, so that no request waits long behind it.
const PAGE: i64 = 4096;

#[async_trait]
impl SharedPools for SharedRedis {
    async fn prepare(&self, pool: &PoolKey) -> Result<u64> {
        let link = self.shared.breaker.link()?;
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("LLEN").arg(self.shared.keys(pool, &link).serials);
        let answers = self.shared.ask(&link, pool, commands).await?;
        Ok(read_length(&answers.into_iter().next().unwrap_or_default())?)
    }

    async fn withdraw(&self, pool: &PoolKey, count: usize) -> Result<Withdrawn> {
        Ok(withdraw::withdraw(&self.shared, pool, count).await?)
    }

    async fn top_up(&self, pool: &PoolKey, order: TopUp) -> Result<ToppedUp> {
        // A task of its own: if the caller goes away, the serials that were drawn still get to
        // where they belong.
        let step = refill::top_up(Arc::clone(&self.shared), pool.clone(), order);
        tokio::spawn(step).await.unwrap_or_else(|error| {
            Err(StoreError::Unavailable(format!("a refill did not end: {error}")))
        })
    }

    async fn put_back(&self, pool: &PoolKey, items: &Items) -> Result<bool> {
        let Items::Serials(serials) = items else { return Ok(false) };
        if serials.is_empty() {
            return Ok(true);
        }
        let Ok(link) = self.shared.breaker.link() else { return Ok(false) };
        if !self.shared.origins.are_from(pool, link.epoch, serials) {
            return Ok(false);
        }
        match self.shared.push_front(&link, pool, serials).await {
            Ok(()) => Ok(true),
            Err(Trouble::Refused(_)) => Ok(false),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// A list forgets what has left it; the store's issue log and draws remember.
    async fn find(&self, _pool: &PoolKey, _id: &str) -> Result<Option<PooledId>> {
        Ok(None)
    }

    async fn contents(&self, pool: &PoolKey) -> Result<Option<PoolContents>> {
        let link = self.shared.breaker.link()?;
        let keys = self.shared.keys(pool, &link);
        let mut serials = self.shared.strays.view(pool, link.epoch);
        // From the end to the head, by distance from the end: what leaves the pool meanwhile does
        // not move the rest, and what is added only shows some of it twice.
        let mut last = -1;
        loop {
            let mut commands = Pipeline::with_capacity(2);
            commands.cmd("LRANGE").arg(&keys.serials).arg(last - PAGE + 1).arg(last);
            let answers = self.shared.ask(&link, pool, commands).await?;
            let page = read_serials(&answers.into_iter().next().unwrap_or_default())?;
            serials.extend(&page);
            last -= PAGE;
            if page.is_empty() {
                break;
            }
        }
        serials.sort_unstable();
        serials.dedup();
        Ok(Some(PoolContents { holder: pool_holder(link.epoch), serials }))
    }

    fn readings(&self) -> Vec<Reading> {
        self.shared.figures.readings(self.is_open(), self.shared.breaker.epoch())
    }

    async fn close(&self) {
        if let Some(keeper) = self.stop_keeper() {
            // It may be about to close the breaker; afterwards nobody does. The error says that it
            // was aborted.
            let _ = keeper.await;
        }
        if let Ok(link) = self.shared.breaker.link() {
            self.shared.return_strays(&link).await;
        }
        self.shared.breaker.open();
        self.shared.waiters.close();
    }
}
