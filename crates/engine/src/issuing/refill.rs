//! Refilling pools: a durable draw first, then rendering, with a bounded number at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idgen::format::Format;
use storage::{Draw, Store, StoreError, ToppedUp};
use tokio::sync::Semaphore;
use tracing::{debug, error, info};

use super::log::LogWriter;
use super::pool::{Pool, Renderer};
use super::stock::Block;
use super::supply::{self, SharedSupply, Supply};
use crate::error::IssueError;
use crate::metrics::EngineMetrics;
use crate::surroundings::Clock;

/// Most serials of one draw. It bounds the memory of a refill, and what a crash can lose.
pub(crate) const DRAW_MAX: u64 = 1 << 20;

/// Serials that are rendered and added at a time. A draw costs a write to the disk, so it is made
/// for all of them at once; rendering costs time on a core, so requests get their turn in between.
const PORTION: u64 = 4096;

/// Portions up to this size are rendered here; larger ones on a thread that may be busy.
const RENDER_INLINE_MAX: u64 = 2048;

/// Withdrawals from shared pools at once. Each is one short step with few IDs.
const WITHDRAWALS_AT_ONCE: usize = 256;

/// How long a shared pool counts as exhausted before it is looked at again: another instance may
/// have put something back.
const EXHAUSTED_FOR_MS: i64 = 1000;

/// Settings of refills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefillSettings {
    /// Smallest and largest size of a pool.
    pub(crate) sizes: (usize, usize),
    /// Refills at once, across all pools.
    pub(crate) at_once: usize,
    /// The share of a shared pool that may be used up before it is topped up.
    pub(crate) watermark: f64,
}

/// Refills pools, each by one task at a time.
pub(crate) struct Refiller {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: String,
    log: Arc<LogWriter>,
    metrics: Arc<EngineMetrics>,
    settings: RefillSettings,
    permits: Arc<Semaphore>,
    withdrawals: Arc<Semaphore>,
    /// Whether to give up on what does not succeed at once.
    stopping: AtomicBool,
    /// Whether the last draw failed, so that an outage is said once.
    failing: AtomicBool,
    /// Set when a shared pool cannot be reached: what was on its way to or from it may be lost.
    losses_suspected: Arc<AtomicBool>,
}

impl Refiller {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        instance: String,
        log: Arc<LogWriter>,
        metrics: Arc<EngineMetrics>,
        settings: RefillSettings,
        losses_suspected: Arc<AtomicBool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(settings.at_once)),
            withdrawals: Arc::new(Semaphore::new(WITHDRAWALS_AT_ONCE)),
            stopping: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            losses_suspected,
            store,
            clock,
            instance,
            log,
            metrics,
            settings,
        })
    }

    /// Refills a pool in the background. The caller has claimed the refill.
    pub(crate) fn spawn(self: &Arc<Self>, pool: Arc<Pool>) {
        let refiller = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(problem) = refiller.refill(&pool).await {
                refiller.report(&pool, &problem);
                pool.refill_failed(&match problem {
                    // The type was changed or retired by another instance; look it up again.
                    StoreError::Stale | StoreError::NotFound(_) => IssueError::Closed,
                    other => other.into(),
                });
            }
        });
    }

    /// Waits for the refills that are under way and starts no more.
    pub(crate) async fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for (permits, all) in
            [(&self.permits, self.settings.at_once), (&self.withdrawals, WITHDRAWALS_AT_ONCE)]
        {
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            let _under_way = permits.acquire_many(all).await;
            permits.close();
        }
    }

    async fn refill(self: &Arc<Self>, pool: &Arc<Pool>) -> Result<(), StoreError> {
        let (permits, shared) = match &pool.supply {
            Supply::Counter => (&self.permits, None),
            Supply::Shared(shared) => (&self.withdrawals, Some(shared)),
        };
        let _permit = permits.acquire().await.map_err(|_| shutting_down())?;
        self.metrics.refills.inc();
        let mut missing = pool.begin_refill(self.clock.now_ms());
        while let Some(count) = missing {
            let found = match shared {
                None => self.draw_into(pool, count).await?,
                Some(shared) => self.withdraw_into(pool, shared, count).await?,
            };
            if !found {
                debug!(pool = pool.label, "{} is exhausted", pool.label);
                let until_ms = match shared {
                    None => i64::MAX,
                    Some(_) => self.clock.now_ms() + EXHAUSTED_FOR_MS,
                };
                pool.drained(until_ms, &self.log);
                return Ok(());
            }
            missing = pool.continue_refill();
        }
        self.works_again();
        Ok(())
    }

    /// Draws serials for about so many IDs. False if the counter has none left.
    async fn draw_into(&self, pool: &Arc<Pool>, count: usize) -> Result<bool, StoreError> {
        let drawn = self.draw(pool, pool.serials_for(count)).await?;
        let mut first = drawn.start;
        while first < drawn.end {
            let end = drawn.end.min(first + PORTION);
            self.add(pool, first..end).await;
            first = end;
        }
        Ok(!drawn.is_empty())
    }

    /// Takes IDs out of a shared pool, and fills that first if it is empty. False if there are none
    /// left anywhere.
    async fn withdraw_into(
        self: &Arc<Self>,
        pool: &Arc<Pool>,
        shared: &SharedSupply,
        count: usize,
    ) -> Result<bool, StoreError> {
        let mut exhausted = false;
        loop {
            match shared.withdraw(count, self.settings.watermark).await {
                Ok((items, low)) => {
                    if low {
                        self.spawn_top_up(Arc::clone(pool));
                    }
                    if !items.is_empty() {
                        pool.add_withdrawn(supply::blocks(items, &pool.renderer), &self.log);
                        return Ok(true);
                    }
                }
                Err(problem) if problem.is_unavailable() && shared.may_draw => {
                    return self.fall_back(pool, count).await;
                }
                Err(problem) => return Err(problem),
            }
            if exhausted {
                return Ok(false);
            }
            shared.adapt_size(self.clock.now_ms(), self.settings);
            match shared.top_up(pool, &*self.clock, true).await {
                // What others have added meanwhile is in the pool now.
                Ok(ToppedUp::Exhausted) => exhausted = true,
                // The rest of what it is to have comes behind the request.
                Ok(_) if shared.start_top_up() => self.spawn_top_up(Arc::clone(pool)),
                Ok(_) => {}
                Err(problem) if problem.is_unavailable() && shared.may_draw => {
                    return self.fall_back(pool, count).await;
                }
                Err(problem) => return Err(problem),
            }
        }
    }

    /// Draws from the counter, because the shared pool cannot be reached.
    async fn fall_back(&self, pool: &Arc<Pool>, count: usize) -> Result<bool, StoreError> {
        self.metrics.fallback_draws.inc();
        self.losses_suspected.store(true, Ordering::Release);
        self.draw_into(pool, count).await
    }

    /// Tops a shared pool up in the background. The caller has claimed the top-up.
    pub(crate) fn spawn_top_up(self: &Arc<Self>, pool: Arc<Pool>) {
        let refiller = Arc::clone(self);
        tokio::spawn(async move {
            if let Supply::Shared(shared) = &pool.supply {
                if let Err(problem) = refiller.top_up(&pool, shared).await {
                    refiller.report(&pool, &problem);
                }
                shared.end_top_up();
            }
        });
    }

    /// Fills a shared pool to its size, unless another instance is at it.
    pub(crate) async fn top_up(
        &self,
        pool: &Arc<Pool>,
        shared: &SharedSupply,
    ) -> Result<(), StoreError> {
        let _permit = self.permits.acquire().await.map_err(|_| shutting_down())?;
        loop {
            // A pool that is emptied as fast as it is filled would never grow otherwise.
            if shared.is_low(self.settings.watermark) {
                shared.adapt_size(self.clock.now_ms(), self.settings);
            }
            match shared.top_up(pool, &*self.clock, false).await? {
                ToppedUp::Added { drawn, items, .. } => {
                    self.metrics.top_ups.inc();
                    self.metrics.serials_drawn.inc_by(drawn.end - drawn.start);
                    debug!(pool = pool.label, items, "topped up {} by {items}", pool.label);
                }
                ToppedUp::Full { .. } | ToppedUp::Busy | ToppedUp::Exhausted => return Ok(()),
            }
        }
    }

    /// Fills a shared pool to its smallest size before anybody asks for it, however long the store
    /// takes.
    pub(crate) async fn warm_up(self: &Arc<Self>, pool: &Arc<Pool>) {
        const RETRY: Duration = Duration::from_millis(200);
        let Supply::Shared(shared) = &pool.supply else { return };
        let Ok(_permit) = self.permits.acquire().await else { return };
        loop {
            match shared.top_up(pool, &*self.clock, true).await {
                Ok(ToppedUp::Exhausted) | Err(StoreError::Stale | StoreError::NotFound(_)) => {
                    return;
                }
                Ok(_) if shared.has_minimum(self.settings.sizes.0) => return,
                Ok(_) => {}
                Err(problem) => {
                    self.report(pool, &problem);
                    tokio::time::sleep(RETRY).await;
                }
            }
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn report(&self, pool: &Pool, problem: &StoreError) {
        self.metrics.draw_failures.inc();
        self.losses_suspected.store(true, Ordering::Release);
        if !self.failing.swap(true, Ordering::Relaxed) {
            let label = &pool.label;
            error!(
                pool = label,
                "cannot refill {label}: {problem}; the next failures are not logged"
            );
        }
    }

    fn works_again(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            info!("pools can be refilled again");
        }
    }

    async fn draw(&self, pool: &Pool, count: u64) -> storage::Result<Range<u64>> {
        let drawn = self
            .store
            .draw(Draw {
                type_id: pool.type_id,
                period: &pool.period,
                count,
                bounds: pool.bounds,
                holder: &self.instance,
                revision: pool.revision,
                now: self.clock.now(),
            })
            .await?;
        self.metrics.draws.inc();
        self.metrics.serials_drawn.inc_by(drawn.end - drawn.start);
        Ok(drawn)
    }

    async fn add(&self, pool: &Arc<Pool>, drawn: Range<u64>) {
        let block = match &pool.renderer {
            Renderer::Sequence => Block::plain(drawn.clone()),
            Renderer::Random(format) if drawn.end - drawn.start <= RENDER_INLINE_MAX => {
                render(format, drawn.clone())
            }
            Renderer::Random(format) => {
                let (format, drawn) = (Arc::clone(format), drawn.clone());
                tokio::task::spawn_blocking(move || render(&format, drawn))
                    .await
                    .expect("rendering does not panic")
            }
        };
        pool.add_drawn(block, &drawn, &self.log);
    }
}

fn shutting_down() -> StoreError {
    StoreError::Unavailable("the server is shutting down".to_owned())
}

fn render(format: &Format, drawn: Range<u64>) -> Block {
    match format {
        Format::Random(format) => Block::rendered(drawn, format),
        _ => Block::plain(drawn),
    }
}
