//! Which kind of pool an ID type gets in this deployment.

use std::sync::Arc;

use storage::{PoolKey, SharedPools, StoredType};

use super::pool::{Pool, PoolParts, Renderer};
use super::sizing::Sizing;
use super::snowflakes::SnowflakeParts;
use super::supply::{SharedSupply, Supply};

/// The pools that instances share, by what they hold. Without any, this instance is alone.
#[derive(Clone, Default)]
pub struct SharedPoolSet {
    /// Of random types: rendered IDs.
    pub ids: Option<Arc<dyn SharedPools>>,
    /// Of sequence types: serials. They may go away; the counter then serves on its own.
    pub serials: Option<Arc<dyn SharedPools>>,
}

impl SharedPoolSet {
    /// Whether other instances work on the same store.
    pub(crate) fn in_company(&self) -> bool {
        self.ids.is_some()
    }
}

/// Makes pools.
pub(crate) struct PoolMaker {
    pub(crate) shared: SharedPoolSet,
    pub(crate) snowflakes: SnowflakeParts,
    /// Smallest and largest size of a pool.
    pub(crate) sizes: (usize, usize),
    /// The share of a pool that may be used up before it is refilled.
    pub(crate) watermark: f64,
}

impl PoolMaker {
    pub(crate) fn make(
        &self,
        stored: &StoredType,
        period: String,
        renderer: Renderer,
        bounds: (u64, u64),
    ) -> Pool {
        let key = || PoolKey {
            type_id: stored.id,
            tenant: stored.id_type.tenant().to_owned(),
            name: stored.id_type.name().to_owned(),
            period: period.clone(),
        };
        let (pools, may_draw) = match &renderer {
            Renderer::Random(_) => (&self.shared.ids, false),
            Renderer::Sequence => (&self.shared.serials, true),
        };
        let supply = match pools {
            Some(pools) => {
                let pools = Arc::clone(pools);
                Supply::Shared(SharedSupply::new(pools, key(), self.sizes.0, may_draw))
            }
            None => Supply::Counter,
        };
        let sizing = if self.shared.in_company() {
            Sizing::in_company()
        } else {
            Sizing::ahead(self.sizes, self.watermark)
        };
        Pool::new(PoolParts {
            type_id: stored.id,
            revision: stored.revision,
            label: stored.id_type.label(),
            period,
            renderer,
            bounds,
            supply,
            sizing,
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.snowflakes.clock.now_ms()
    }
}
