//! Where the IDs of a pool come from: the counter, or a pool that instances share.

use std::sync::{Arc, Mutex, MutexGuard};

use idgen::format::{Format, Parsed};
use jiff::Timestamp;
use storage::{Items, PoolKey, Render, SharedPools, StoreError, TopUp, ToppedUp, Withdrawn};
use tokio::sync::OnceCell;

use super::pool::{Pool, Renderer};
use super::refill::RefillSettings;
use super::sizing::Sizing;
use super::stock::Block;
use crate::surroundings::Clock;

/// Most serials of one step of filling a shared pool. It bounds the memory of the step.
const STEP_SERIALS_MAX: u64 = 1 << 16;

/// About so many IDs are added in one step: others can have them only when it is done.
const STEP_IDS: f64 = 8192.0;

/// Where the IDs of a pool come from.
pub(crate) enum Supply {
    /// The counter: this instance draws for itself.
    Counter,
    /// A pool that instances share.
    Shared(SharedSupply),
}

/// A pool that instances share, as one of them sees it.
pub(crate) struct SharedSupply {
    pools: Arc<dyn SharedPools>,
    key: PoolKey,
    /// Whether this instance may draw for itself while the shared pools cannot be reached.
    pub(crate) may_draw: bool,
    prepared: OnceCell<()>,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    /// As of the last look.
    items: u64,
    size: u64,
    topping_up: bool,
    last_top_up_ms: i64,
    /// Whether anything was taken since the last check.
    used: bool,
}

/// A look at a shared pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedView {
    pub(crate) items: u64,
    pub(crate) size: u64,
}

impl SharedSupply {
    pub(crate) fn new(
        pools: Arc<dyn SharedPools>,
        key: PoolKey,
        size: usize,
        may_draw: bool,
    ) -> Self {
        let level = Level {
            items: 0,
            size: size as u64,
            topping_up: false,
            last_top_up_ms: 0,
            used: false,
        };
        let (prepared, level) = (OnceCell::new(), Mutex::new(level));
        Self { pools, key, may_draw, prepared, level }
    }

    /// Takes items off the pool, and says whether it has come down to its watermark.
    pub(crate) async fn withdraw(
        &self,
        count: usize,
        watermark: f64,
    ) -> Result<(Items, bool), StoreError> {
        self.prepare().await?;
        let Withdrawn { items, left } = self.pools.withdraw(&self.key, count).await?;
        let mut level = self.lock();
        level.items = left;
        level.used = true;
        Ok((items, level.wants_top_up(watermark)))
    }

    /// Looks at the pool afresh, if anything was taken from it, and says whether it is low.
    pub(crate) async fn check(&self, watermark: f64) -> Result<bool, StoreError> {
        let used = std::mem::take(&mut self.lock().used);
        if !used && self.prepared.initialized() {
            return Ok(false);
        }
        let items = self.pools.prepare(&self.key).await?;
        let _ = self.prepared.set(());
        let mut level = self.lock();
        level.items = items;
        Ok(level.wants_top_up(watermark))
    }

    /// One step of filling the pool. `wait` is for a pool that is empty.
    pub(crate) async fn top_up(
        &self,
        pool: &Pool,
        clock: &dyn Clock,
        wait: bool,
    ) -> Result<ToppedUp, StoreError> {
        self.prepare().await?;
        let acceptance = pool.acceptance();
        let order = TopUp {
            size: self.lock().size,
            serials_max: step_serials(acceptance),
            bounds: pool.bounds,
            revision: pool.revision,
            render: render(&pool.renderer),
            acceptance,
            wait,
            now: clock.now(),
        };
        let topped_up = self.pools.top_up(&self.key, order).await?;
        if let ToppedUp::Added { level, .. } | ToppedUp::Full { level } = &topped_up {
            self.lock().items = *level;
        }
        if let ToppedUp::Added { drawn, .. } = &topped_up {
            pool.note_drawn_for_shared(drawn.end);
        }
        Ok(topped_up)
    }

    /// Chooses the size of the pool for the top-up that begins, as for a pool that is the only one
    /// of its counter: all instances together have no other.
    pub(crate) fn adapt_size(&self, now_ms: i64, settings: RefillSettings) {
        let sizing = Sizing::ahead(settings.sizes, settings.watermark);
        let mut level = self.lock();
        let lasted_ms = (level.last_top_up_ms != 0).then(|| now_ms - level.last_top_up_ms);
        let size = usize::try_from(level.size).unwrap_or(usize::MAX);
        level.size = sizing.next(size, lasted_ms) as u64;
        level.last_top_up_ms = now_ms;
    }

    /// Whether the pool is at its watermark, as of the last look.
    pub(crate) fn is_low(&self, watermark: f64) -> bool {
        self.lock().is_low(watermark)
    }

    /// Claims a top-up; there is never more than one by this instance.
    pub(crate) fn start_top_up(&self) -> bool {
        !std::mem::replace(&mut self.lock().topping_up, true)
    }

    pub(crate) fn end_top_up(&self) {
        self.lock().topping_up = false;
    }

    /// Whether the pool is at its smallest size at least.
    pub(crate) fn has_minimum(&self, min: usize) -> bool {
        self.lock().items >= min as u64
    }

    /// Puts back what was never handed out. False if that is not possible any more.
    pub(crate) async fn put_back(&self, items: &Items) -> Result<bool, StoreError> {
        self.pools.put_back(&self.key, items).await
    }

    /// What is in a pool of serials, and who holds it.
    pub(crate) async fn contents(&self) -> Result<Option<storage::PoolContents>, StoreError> {
        self.pools.contents(&self.key).await
    }

    /// When an ID was taken out of the pool, if the pool remembers it.
    pub(crate) async fn taken_at(&self, id: &str) -> Result<Option<Timestamp>, StoreError> {
        let found = self.pools.find(&self.key, &stored(id)).await?;
        Ok(found.and_then(|found| found.taken_at))
    }

    pub(crate) fn view(&self) -> SharedView {
        let level = self.lock();
        SharedView { items: level.items, size: level.size }
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        let prepare = || async {
            self.lock().items = self.pools.prepare(&self.key).await?;
            Ok(())
        };
        self.prepared.get_or_try_init(prepare).await.map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Level> {
        self.level.lock().expect("no code panics while it holds a level")
    }
}

impl Level {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a pool's size is a size"
    )]
    fn is_low(&self, watermark: f64) -> bool {
        self.items <= (self.size as f64 * (1.0 - watermark)) as u64
    }

    fn wants_top_up(&mut self, watermark: f64) -> bool {
        let wants = self.is_low(watermark) && !self.topping_up;
        self.topping_up |= wants;
        wants
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of how much to draw, clamped"
)]
fn step_serials(acceptance: f64) -> u64 {
    ((STEP_IDS / acceptance) as u64).clamp(1, STEP_SERIALS_MAX)
}

/// What came out of a shared pool, as blocks of a stock.
pub(crate) fn blocks(items: Items, renderer: &Renderer) -> Vec<Block> {
    match (items, renderer) {
        (Items::Serials(serials), _) => Block::runs(serials),
        (Items::Ids(ids), Renderer::Sequence) => vec![Block::foreign(&ids)],
        (Items::Ids(ids), Renderer::Random(format)) => {
            let (mut listed, mut foreign) = (Vec::with_capacity(ids.len()), Vec::new());
            for id in ids {
                match (&**format, format.parse(&id)) {
                    (Format::Random(format), Ok(Parsed::Random(serial))) => {
                        listed.push((serial, format.shape().grouped(&id)));
                    }
                    _ => foreign.push(id),
                }
            }
            vec![Block::listed(listed), Block::foreign(&foreign)]
        }
    }
}

/// An ID as it is kept in a shared pool: without the hyphens of its groups, which may be changed
/// while it is in there.
pub(crate) fn stored(id: &str) -> String {
    id.replace('-', "")
}

fn render(renderer: &Renderer) -> Render {
    match renderer {
        Renderer::Sequence => Arc::new(|_| Vec::new()),
        Renderer::Random(format) => {
            let format = Arc::clone(format);
            Arc::new(move |serials| {
                let mut ids = Vec::new();
                if let Format::Random(format) = &*format {
                    format.for_each(serials, |_, text| {
                        ids.push(stored(&String::from_utf8_lossy(text)));
                    });
                }
                ids
            })
        }
    }
}
