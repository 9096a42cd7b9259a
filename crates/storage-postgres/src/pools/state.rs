//! What an instance knows about a pool without asking the database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use storage::{PoolKey, TypeId};

use super::names;
use crate::session::Keep;
use crate::time::Stamp;

/// So many pools have their statements prepared on every connection. More would fill the servers'
/// memory, and pools that many are not used that often each.
const PREPARED_MAX: usize = 256;

/// How long the floor is trusted before the next filling looks at the whole table again.
const FLOOR_TRUSTED: Duration = Duration::from_secs(30);

/// How long a look at the whole table that found nothing more is good for.
const EMPTY_TRUSTED: Duration = Duration::from_millis(50);

/// A table that this instance has added so many rows to is looked at by the planner, and again each
/// time that there are twice as many. Plans are kept, and one that was made for a table of a few pages
/// reads all of it.
const PLANNED_ROWS_MIN: u64 = 1024;

/// All pools that were used, and figures about them.
#[derive(Default)]
pub(crate) struct Pools {
    tables: Mutex<HashMap<(TypeId, String), Arc<PoolTable>>>,
    count: AtomicUsize,
    pub(super) busy: AtomicU64,
}

impl Pools {
    fn lock(&self) -> MutexGuard<'_, HashMap<(TypeId, String), Arc<PoolTable>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, pool: &PoolKey) -> Option<Arc<PoolTable>> {
        self.lock().get(&(pool.type_id, pool.period.clone())).cloned()
    }

    /// Remembers the table of a pool.
    pub(super) fn add(&self, pool: &PoolKey, table: &str) -> Arc<PoolTable> {
        let keep = if self.count.fetch_add(1, Ordering::Relaxed) < PREPARED_MAX {
            Keep::Prepared
        } else {
            Keep::Never
        };
        let added = Arc::new(PoolTable {
            table: names::quoted(table),
            lock_key: names::lock_key(pool, table),
            keep,
            level: AtomicI64::new(0),
            floor: AtomicI64::new(Stamp::MIN.0),
            added: AtomicU64::new(0),
            looks: Mutex::default(),
        });
        let key = (pool.type_id, pool.period.clone());
        Arc::clone(self.lock().entry(key).or_insert(added))
    }

    /// Forgets a table, because it is not there any more.
    pub(super) fn forget(&self, pool: &PoolKey) {
        self.lock().remove(&(pool.type_id, pool.period.clone()));
    }
}

/// One pool.
///
/// The floor is a time of creation before which no row is available. Rows are taken in the order of
/// their creation, so entries of taken rows pile up at one end of the index, and every search would
/// begin with walking over them. With the floor it begins behind them. It may be too high: another
/// instance may put rows back. So it is given up when rows run short, and now and then.
pub(super) struct PoolTable {
    /// Quoted.
    pub(super) table: String,
    pub(super) lock_key: i64,
    /// Whether the statement that takes rows is prepared.
    pub(super) keep: Keep,
    /// An estimate: counted now and then, and less what this instance has taken since.
    level: AtomicI64,
    floor: AtomicI64,
    /// Rows that this instance has added.
    added: AtomicU64,
    looks: Mutex<Looks>,
}

/// When the whole table was looked at last.
#[derive(Default)]
struct Looks {
    any: Option<Instant>,
    /// The last one that found too little.
    short: Option<Instant>,
}

impl PoolTable {
    pub(super) fn level(&self) -> u64 {
        u64::try_from(self.level.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn set_level(&self, level: i64) {
        self.level.store(level, Ordering::Relaxed);
    }

    pub(super) fn add_to_level(&self, change: i64) {
        self.level.fetch_add(change, Ordering::Relaxed);
    }

    /// Counts rows that are added, and says whether plans should be made afresh.
    pub(super) fn has_outgrown_its_plans(&self, rows: u64) -> bool {
        let before = self.added.fetch_add(rows, Ordering::Relaxed);
        let step = |rows: u64| (rows / PLANNED_ROWS_MIN).checked_ilog2();
        step(before) != step(before + rows)
    }

    pub(super) fn floor(&self) -> Stamp {
        Stamp(self.floor.load(Ordering::Relaxed))
    }

    /// Rows up to this one were taken, by us or by whoever had locked them.
    pub(super) fn raise_floor(&self, to: Stamp) {
        self.floor.fetch_max(to.0, Ordering::Relaxed);
    }

    /// This one is available again.
    pub(super) fn lower_floor(&self, to: Stamp) {
        self.floor.fetch_min(to.0, Ordering::Relaxed);
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From where to count when the pool is filled.
    pub(super) fn floor_for_counting(&self) -> Stamp {
        let trusted = self.looks().any.is_some_and(|look| look.elapsed() < FLOOR_TRUSTED);
        if trusted { self.floor() } else { Stamp::MIN }
    }

    /// Whether rows that are short are worth a look at the whole table.
    pub(super) fn may_have_more(&self) -> bool {
        self.looks().short.is_none_or(|look| look.elapsed() >= EMPTY_TRUSTED)
    }

    /// Notes that the whole table was looked at, and whether there was too little.
    pub(super) fn note_look(&self, short: bool) {
        let mut looks = self.looks();
        looks.any = Some(Instant::now());
        if short {
            looks.short = looks.any;
        }
    }
}
