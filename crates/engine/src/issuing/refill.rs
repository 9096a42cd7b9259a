//! Refilling pools: a durable draw first, then rendering, with a bounded number at once.

use std::ops::Range;
use std::sync::Arc;

use idgen::format::Format;
use storage::{Draw, Store};
use tokio::sync::Semaphore;
use tracing::{debug, error};

use super::log::LogWriter;
use super::pool::{Pool, Renderer};
use super::stock::Block;
use crate::metrics::EngineMetrics;
use crate::surroundings::Clock;

/// Most serials of one draw. It bounds the memory of a refill, and what a crash can lose.
pub(crate) const DRAW_MAX: u64 = 1 << 20;

/// Serials that are rendered and added at a time. A draw costs a write to the disk, so it is made
/// for all of them at once; rendering costs time on a core, so requests get their turn in between.
const PORTION: u64 = 4096;

/// Portions up to this size are rendered here; larger ones on a thread that may be busy.
const RENDER_INLINE_MAX: u64 = 2048;

/// Settings of refills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefillSettings {
    /// Smallest and largest size of a pool.
    pub(crate) sizes: (usize, usize),
    /// Refills at once, across all pools.
    pub(crate) at_once: usize,
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
}

impl Refiller {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        instance: String,
        log: Arc<LogWriter>,
        metrics: Arc<EngineMetrics>,
        settings: RefillSettings,
    ) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(settings.at_once));
        Arc::new(Self { store, clock, instance, log, metrics, settings, permits })
    }

    pub(crate) fn size_min(&self) -> usize {
        self.settings.sizes.0
    }

    /// Refills a pool in the background. The caller has claimed the refill.
    pub(crate) fn spawn(self: &Arc<Self>, pool: Arc<Pool>) {
        let refiller = Arc::clone(self);
        tokio::spawn(async move { refiller.refill(&pool).await });
    }

    /// Waits for the refills that are under way and starts no more.
    pub(crate) async fn stop(&self) {
        let all = u32::try_from(self.settings.at_once).unwrap_or(u32::MAX);
        let _under_way = self.permits.acquire_many(all).await;
        self.permits.close();
    }

    async fn refill(&self, pool: &Arc<Pool>) {
        let Ok(_permit) = self.permits.acquire().await else {
            return pool.refill_failed("the server is shutting down");
        };
        self.metrics.refills.inc();
        pool.adapt_size(self.clock.now_ms(), self.settings.sizes);
        while let Some(count) = pool.refill_demand() {
            match self.draw(pool, count).await {
                Ok(drawn) if drawn.is_empty() => {
                    debug!(pool = pool.label, "{} is exhausted", pool.label);
                    return pool.drained(&self.log);
                }
                Ok(drawn) => {
                    let mut first = drawn.start;
                    while first < drawn.end {
                        let end = drawn.end.min(first + PORTION);
                        self.add(pool, first..end).await;
                        first = end;
                    }
                }
                Err(problem) => {
                    self.metrics.draw_failures.inc();
                    error!(pool = pool.label, "cannot draw serials for {}: {problem}", pool.label);
                    return pool.refill_failed(&problem.to_string());
                }
            }
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
                instance: &self.instance,
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
        pool.add(block, &drawn, &self.log);
    }
}

fn render(format: &Format, drawn: Range<u64>) -> Block {
    match format {
        Format::Random(format) => Block::rendered(drawn, format),
        _ => Block::plain(drawn),
    }
}
