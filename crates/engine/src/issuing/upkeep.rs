//! What has to be done about pools beside requests: filling them at the start, looking after those
//! that are shared, and finding what was lost on the way out of them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::{GapReason, Items, Span, StoreError, TypeId};
use tokio::task::JoinSet;
use tracing::debug;

use super::issuer::Issuer;
use super::log::spans;
use super::pool::Pool;
use super::supply::Supply;
use crate::membership::tell_of;

/// A stock that nobody has taken from for so long goes back to the pool that it came from.
const IDLE_MS: i64 = 1000;

/// Serials by counter.
type OpenSerials = HashMap<(TypeId, String), Vec<Range<u64>>>;

impl Issuer {
    /// Fills the pools of random types ahead of the first request; those that are shared have to reach
    /// their smallest size before this instance is ready. Sequences need no rendering, and whoever is
    /// the first to need one, be it for a document, gets its first number.
    pub fn warm_up(self: &Arc<Self>) {
        let mut needed = Vec::new();
        for pool in self.pools_at_work().into_iter().filter(|pool| pool.is_rendered_ahead()) {
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
                && (pool.is_rendered_ahead() || pool.is_in_use())
                && let Ok(true) = shared.check(self.settings.watermark).await
            {
                self.refiller.spawn_top_up(Arc::clone(&pool));
            }
            // The level may have been out of date when the last IDs went into the log.
            pool.warn_if_nearly_used_up();
        }
    }

    /// Has lost serials looked for at the next turn.
    pub(crate) fn suspect_losses(&self) {
        self.losses_suspected.store(true, Ordering::Release);
    }

    /// Finds serials that left a shared pool and never arrived: an instance took them and was gone
    /// before the store knew. Whoever is alive tells the store what it holds at every turn of the
    /// log, so what has left the pool now and is still unaccounted for after such a turn, and after
    /// the lease of any instance would have run out, is lost. Looked for until it succeeds: nobody
    /// else does it.
    pub(crate) async fn find_lost_withdrawals(self: &Arc<Self>) {
        if !self.losses_suspected.swap(false, Ordering::AcqRel) {
            return;
        }
        let (holder, mut open) = match self.open_in_pools().await {
            Ok(Some(open)) => open,
            Ok(None) => return,
            Err(problem) => {
                debug!("cannot look for lost serials yet: {problem}");
                return self.suspect_losses();
            }
        };
        for pool in self.pools_at_work() {
            let Some(open) = open.remove(&(pool.type_id, pool.period.clone())) else { continue };
            let missing = match missing_from(&pool, &holder, open).await {
                Ok(missing) if missing.is_empty() => continue,
                Ok(missing) => missing,
                Err(problem) => {
                    debug!(pool = pool.label, "cannot look for lost serials yet: {problem}");
                    return self.suspect_losses();
                }
            };
            let (issuer, holder) = (Arc::clone(self), holder.clone());
            tokio::spawn(async move {
                let turn = 2 * issuer.settings.log_flush;
                tokio::time::sleep(issuer.membership.lease().max(turn)).await;
                if let Err(problem) = issuer.close_missing(&pool, &holder, missing).await {
                    debug!("cannot record serials that were lost yet: {problem}");
                    issuer.suspect_losses();
                }
            });
        }
    }

    /// What the store has on record as being in shared pools, by counter, and under which name.
    async fn open_in_pools(&self) -> Result<Option<(String, OpenSerials)>, StoreError> {
        let Some(epoch) = self.store.current_pool_epoch().await? else { return Ok(None) };
        let holder = storage::pool_holder(epoch);
        let mut open = OpenSerials::new();
        for Span { type_id, period, serials } in self.store.open_draws(&holder).await? {
            open.entry((type_id, period)).or_default().push(serials);
        }
        Ok(Some((holder, open)))
    }

    /// Records what was missing from a shared pool and has not come back as gaps.
    async fn close_missing(
        &self,
        pool: &Pool,
        holder: &str,
        mut missing: Vec<u64>,
    ) -> Result<(), StoreError> {
        let Supply::Shared(shared) = &pool.supply else { return Ok(()) };
        if let Some(contents) = shared.contents().await? {
            let back: HashSet<u64> = contents.serials.into_iter().collect();
            missing.retain(|serial| !back.contains(serial));
        }
        let spans = spans(pool, &missing);
        let now = self.clock.now();
        tell_of(&self.store.close_draws(holder, &spans, GapReason::Crash, now).await?);
        Ok(())
    }

    /// Gives up the shared pool of a period that is over: nobody will ask for its numbers again, be they
    /// in a list that can be reached, in one that cannot, or lost on the way to it.
    pub(super) async fn discard_shared(&self, pool: &Pool) -> Result<(), StoreError> {
        const AT_ONCE: usize = 4096;
        let Supply::Shared(shared) = &pool.supply else { return Ok(()) };
        if let Ok(None) = shared.contents().await {
            return Ok(());
        }
        while let Ok((Items::Serials(serials), _)) = shared.withdraw(AT_ONCE, 1.0).await
            && !serials.is_empty()
        {}
        let Some((holder, mut open)) = self.open_in_pools().await? else { return Ok(()) };
        let (type_id, period) = (pool.type_id, pool.period.clone());
        let left = open.remove(&(type_id, period.clone())).unwrap_or_default();
        let span = |serials| Span { type_id, period: period.clone(), serials };
        let (left, reason): (Vec<_>, _) =
            (left.into_iter().map(span).collect(), GapReason::PoolDiscarded);
        self.store.close_draws(&holder, &left, reason, self.clock.now()).await?;
        Ok(())
    }

    fn pools_at_work(&self) -> Vec<Arc<Pool>> {
        self.catalogue.all().iter().filter_map(|live| live.pool()).collect()
    }
}

/// What a shared pool was given before and does not contain now, in order.
async fn missing_from(
    pool: &Pool,
    holder: &str,
    open: Vec<Range<u64>>,
) -> Result<Vec<u64>, StoreError> {
    let Supply::Shared(shared) = &pool.supply else { return Ok(Vec::new()) };
    // The epoch may have changed since.
    let contents = shared.contents().await?.filter(|contents| contents.holder == holder);
    let Some(contents) = contents else { return Ok(Vec::new()) };
    let inside: HashSet<u64> = contents.serials.into_iter().collect();
    let mut missing: Vec<u64> =
        open.into_iter().flatten().filter(|serial| !inside.contains(serial)).collect();
    missing.sort_unstable();
    Ok(missing)
}
