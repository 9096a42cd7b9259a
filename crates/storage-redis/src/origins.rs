//! Where the serials that are out of a pool came from, as far as that is needed to put them back.
//!
//! A serial may only go back to a list of the epoch that it came from, because the record has it
//! with the pool of that epoch. Serials do not say which one that was. But a counter only moves on,
//! so what was withdrawn in the latest epoch is at least the lowest serial withdrawn in it, and what
//! was withdrawn before is less.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use storage::{PoolKey, TypeId};

/// The latest epoch of each pool, and the lowest serial withdrawn in it.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    pools: Mutex<HashMap<(TypeId, String), Origin>>,
}

#[derive(Debug)]
struct Origin {
    epoch: u64,
    lowest: u64,
}

impl Origins {
    /// Notes serials that were withdrawn.
    pub(crate) fn note(&self, pool: &PoolKey, epoch: u64, serials: &[u64]) {
        let Some(&lowest) = serials.iter().min() else { return };
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (pool.type_id, pool.period.clone());
        let origin = pools.entry(name).or_insert(Origin { epoch, lowest });
        if epoch == origin.epoch {
            origin.lowest = origin.lowest.min(lowest);
        } else if epoch > origin.epoch {
            *origin = Origin { epoch, lowest };
        }
    }

    /// Whether these serials were withdrawn in this epoch, and in no earlier one.
    pub(crate) fn are_from(&self, pool: &PoolKey, epoch: u64, serials: &[u64]) -> bool {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.get(&(pool.type_id, pool.period.clone())).is_some_and(|origin| {
            origin.epoch == epoch && serials.iter().all(|&serial| serial >= origin.lowest)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_epoch_counts() {
        let (tenant, name, period) = Default::default();
        let pool = PoolKey { type_id: TypeId(1), tenant, name, period };
        let origins = Origins::default();
        assert!(!origins.are_from(&pool, 1, &[5]));
        origins.note(&pool, 1, &[5, 6]);
        origins.note(&pool, 1, &[]);
        assert!(origins.are_from(&pool, 1, &[5, 9]));
        assert!(!origins.are_from(&pool, 2, &[5]));
        origins.note(&pool, 2, &[8]);
        origins.note(&pool, 1, &[7]);
        assert!(origins.are_from(&pool, 2, &[8]));
        assert!(!origins.are_from(&pool, 2, &[7, 8]));
        assert!(!origins.are_from(&pool, 1, &[5]));
    }
}
