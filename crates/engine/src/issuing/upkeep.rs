//! What has to be done about pools beside requests: filling them at the start, looking after those
//! that are shared, and finding what was lost on the way out of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::{GapReason, Items, PoolContents, StoreError};
use tokio::task::JoinSet;
use tracing::warn;

use super::issuer::Issuer;
use super::log::spans;
use super::pool::Pool;
use super::supply::{SharedSupply, Supply};

/// A stock that nobody has taken from for so long goes back to the pool that it came from.
const IDLE_MS: i64 = 1000;

impl Issuer {
    /// Fills the pools of every type ahead of the first request. Those of random types that are
    /// shared have to reach their smallest size before this instance is ready.
    pub fn warm_up(self: &Arc<Self>) {
        let mut needed = Vec::new();
        for pool in self.pools_at_work() {
            match &pool.supply {
                Supply::Counter if pool.sizing.min > 0 && pool.start_refill() => {
                    self.refiller.spawn(pool);
                }
                Supply::Shared(shared) if !shared.may_draw => needed.push(pool),
                Supply::Shared(shared) if shared.start_top_up() => self.refiller.spawn_top_up(pool),
                Supply::Counter | Supply::Shared(_) => {}
            }
        }
        let issuer = Arc::clone(self);
        tokio::spawn(async move {
            let filling: JoinSet<()> = needed
                .into_iter()
                .map(|pool| {
                    let refiller = Arc::clone(&issuer.refiller);
                    async move { refiller.warm_up(&pool).await }
                })
                .collect();
            filling.join_all().await;
            issuer.warm.store(true, Ordering::Release);
        });
    }

    /// Whether the pools are filled as far as they have to be.
    pub fn is_warm(&self) -> bool {
        self.warm.load(Ordering::Acquire)
    }

    /// Returns what idle pools hold, for other instances to have.
    pub(crate) async fn return_idle_stock(&self) {
        let idle_since_ms = self.clock.now_ms() - IDLE_MS;
        for pool in self.pools_at_work() {
            if pool.sizing.min == 0 {
                self.log.give_back_idle(&pool, idle_since_ms).await;
            }
        }
    }

    /// Looks at the level of every shared pool that was used, in case that a refill went wrong.
    pub(crate) async fn check_levels(&self) {
        for pool in self.pools_at_work() {
            if let Supply::Shared(shared) = &pool.supply
                && let Ok(true) = shared.check(self.settings.watermark).await
            {
                self.refiller.spawn_top_up(pool);
            }
        }
    }

    /// Finds serials that left a shared pool and never arrived: an instance took them and was gone
    /// before the store knew. Whoever is alive tells the store what it holds at every turn of the
    /// log, so what has left the pool now and is still unaccounted for after the lease of any
    /// instance would have run out is lost.
    pub(crate) async fn find_lost_withdrawals(self: &Arc<Self>) {
        for pool in self.pools_at_work() {
            let Supply::Shared(shared) = &pool.supply else { continue };
            let missing = match self.missing_from(&pool, shared).await {
                Ok(Some(missing)) => missing,
                Ok(None) => continue,
                Err(problem) => {
                    warn!(pool = pool.label, "cannot look for lost serials: {problem}");
                    continue;
                }
            };
            let issuer = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(issuer.membership.lease()).await;
                if let Err(problem) = issuer.close_missing(&pool, missing).await {
                    warn!("cannot record serials that were lost: {problem}");
                }
            });
        }
    }

    /// Records what was missing from a shared pool and has not come back as gaps.
    async fn close_missing(
        &self,
        pool: &Pool,
        (holder, mut missing): (String, Vec<u64>),
    ) -> Result<(), StoreError> {
        let Supply::Shared(shared) = &pool.supply else { return Ok(()) };
        if let Some(contents) = shared.contents().await? {
            let back: HashSet<u64> = contents.serials.into_iter().collect();
            missing.retain(|serial| !back.contains(serial));
        }
        let spans = spans(pool, &missing);
        let now = self.clock.now();
        self.store.close_draws(&holder, &spans, GapReason::Crash, now).await.map(drop)
    }

    /// Gives up the shared pool of a period that is over: nobody will ask for its numbers again.
    pub(super) async fn discard_shared(&self, pool: &Pool) -> Result<(), StoreError> {
        const AT_ONCE: usize = 4096;
        let Supply::Shared(shared) = &pool.supply else { return Ok(()) };
        let Some(contents) = shared.contents().await? else { return Ok(()) };
        loop {
            let (items, _) = shared.withdraw(AT_ONCE, 1.0).await?;
            let Items::Serials(mut serials) = items else { return Ok(()) };
            if serials.is_empty() {
                return Ok(());
            }
            serials.sort_unstable();
            let (spans, reason) = (spans(pool, &serials), GapReason::PoolDiscarded);
            self.store.close_draws(&contents.holder, &spans, reason, self.clock.now()).await?;
        }
    }

    /// What a shared pool has been given and does not contain, if anything.
    async fn missing_from(
        &self,
        pool: &Pool,
        shared: &SharedSupply,
    ) -> Result<Option<(String, Vec<u64>)>, StoreError> {
        // The draws first: what is drawn after this is not looked at.
        let Some(epoch) = self.store.current_pool_epoch().await? else { return Ok(None) };
        let holder = storage::pool_holder(epoch);
        let mut open = self.store.open_draws(&holder).await?;
        open.retain(|span| span.type_id == pool.type_id && span.period == pool.period);
        if open.is_empty() {
            return Ok(None);
        }
        let Some(PoolContents { holder: now, serials }) = shared.contents().await? else {
            return Ok(None);
        };
        if now != holder {
            return Ok(None);
        }
        let inside: HashSet<u64> = serials.into_iter().collect();
        let open = open.into_iter().flat_map(|span| span.serials);
        let mut missing: Vec<u64> = open.filter(|serial| !inside.contains(serial)).collect();
        missing.sort_unstable();
        Ok((!missing.is_empty()).then_some((holder, missing)))
    }

    fn pools_at_work(&self) -> Vec<Arc<Pool>> {
        self.catalogue.all().iter().filter_map(|live| live.pool()).collect()
    }
}
