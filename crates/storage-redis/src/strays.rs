//! Serials that left a pool and then had nobody to go to.
//!
//! A request that has waited long enough goes away; the answer of the server may still come, and
//! what it brings is out of the pool for ever. It is kept here for the next request. Only the epoch
//! that it came from may use it: after that, the record has it as discarded with its pool.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::{PoolKey, TypeId};

/// Serials by pool.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    pools: Mutex<HashMap<(TypeId, String), Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    epoch: u64,
    /// Ascending.
    serials: Vec<u64>,
}

impl Strays {
    /// Keeps serials of an epoch. Returns how many others were dropped for them, because theirs has
    /// ended.
    pub(crate) fn keep(&self, pool: &PoolKey, epoch: u64, serials: &[u64]) -> usize {
        if serials.is_empty() {
            return 0;
        }
        let mut pools = self.lock();
        let kept = pools.entry(name(pool)).or_default();
        if epoch < kept.epoch {
            return serials.len();
        }
        let dropped = if epoch > kept.epoch { std::mem::take(&mut kept.serials).len() } else { 0 };
        kept.epoch = epoch;
        kept.serials.extend_from_slice(serials);
        kept.serials.sort_unstable();
        dropped
    }

    /// Takes the lowest serials that are kept for an epoch. The second number is how many were
    /// dropped.
    pub(crate) fn take(&self, pool: &PoolKey, epoch: u64, count: usize) -> (Vec<u64>, usize) {
        let mut pools = self.lock();
        // Nearly always there is nothing at all, and then nothing has to be looked up.
        if pools.is_empty() {
            return (Vec::new(), 0);
        }
        let name = name(pool);
        let Some(kept) = pools.get_mut(&name) else { return (Vec::new(), 0) };
        if kept.epoch != epoch {
            let dropped = kept.serials.len();
            pools.remove(&name);
            return (Vec::new(), dropped);
        }
        let taken: Vec<u64> = kept.serials.drain(..count.min(kept.serials.len())).collect();
        if kept.serials.is_empty() {
            pools.remove(&name);
        }
        (taken, 0)
    }

    /// A copy of what is kept for an epoch.
    pub(crate) fn view(&self, pool: &PoolKey, epoch: u64) -> Vec<u64> {
        match self.lock().get(&name(pool)) {
            Some(kept) if kept.epoch == epoch => kept.serials.clone(),
            _ => Vec::new(),
        }
    }

    /// Everything that is kept for an epoch, by pool; the rest is dropped.
    pub(crate) fn drain(&self, epoch: u64) -> Vec<((TypeId, String), Vec<u64>)> {
        let pools = std::mem::take(&mut *self.lock());
        pools
            .into_iter()
            .filter(|(_, kept)| kept.epoch == epoch && !kept.serials.is_empty())
            .map(|(name, kept)| (name, kept.serials))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(TypeId, String), Kept>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(pool: &PoolKey) -> (TypeId, String) {
    (pool.type_id, pool.period.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(type_id: i64) -> PoolKey {
        let (tenant, name, period) = Default::default();
        PoolKey { type_id: TypeId(type_id), tenant, name, period }
    }

    #[test]
    fn the_lowest_come_first_and_only_once() {
        let strays = Strays::default();
        assert_eq!(strays.keep(&pool(1), 1, &[7, 8]), 0);
        assert_eq!(strays.keep(&pool(1), 1, &[3]), 0);
        assert_eq!(strays.view(&pool(1), 1), [3, 7, 8]);
        assert_eq!(strays.take(&pool(2), 1, 5), (vec![], 0));
        assert_eq!(strays.take(&pool(1), 1, 2), (vec![3, 7], 0));
        assert_eq!(strays.take(&pool(1), 1, 2), (vec![8], 0));
        assert_eq!(strays.take(&pool(1), 1, 2), (vec![], 0));
    }

    #[test]
    fn another_epoch_does_not_get_them() {
        let strays = Strays::default();
        strays.keep(&pool(1), 1, &[7, 8]);
        assert_eq!(strays.view(&pool(1), 2), [0; 0]);
        assert_eq!(strays.take(&pool(1), 2, 2), (vec![], 2));
        strays.keep(&pool(1), 2, &[9]);
        assert_eq!(strays.keep(&pool(1), 1, &[8]), 1);
        assert_eq!(strays.keep(&pool(1), 3, &[10]), 1);
        assert_eq!(strays.drain(3), [((TypeId(1), String::new()), vec![10])]);
        assert_eq!(strays.drain(3), []);
    }
}
