//! What the tests share: servers, a store, and pools on both.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod redis;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idgen::spec::{IdType, Kind, SERIAL_MAX, SequenceSpec};
use jiff::Timestamp;
use storage::{
    CounterStore, Items, PoolKey, Result, SharedPools, Store, TopUp, ToppedUp, TypeStore, Withdrawn,
};
use storage_redis::{Settings, SharedRedis};
use storage_sqlite::SqliteStore;
use tempfile::TempDir;

/// Nothing that a test waits for takes this long.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// An embedded store with one type, whose pools the tests use.
pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) pool: PoolKey,
    pub(crate) revision: i64,
    _directory: TempDir,
}

impl World {
    pub(crate) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(directory.path()).unwrap());
        let (pool, revision) = new_type(&store, "order").await;
        Self { store, pool, revision, _directory: directory }
    }

    /// One more pool.
    pub(crate) async fn another(&self, name: &str) -> PoolKey {
        new_type(&self.store, name).await.0
    }

    /// Pools on a server, as soon as they can be used.
    pub(crate) async fn pools(&self, url: &str) -> Arc<SharedRedis> {
        let pools = self.pools_with(settings(url));
        closed(&pools).await;
        pools
    }

    /// Pools with settings, which are perhaps not yet connected.
    pub(crate) fn pools_with(&self, settings: Settings) -> Arc<SharedRedis> {
        static TOKENS: AtomicU64 = AtomicU64::new(1);
        let tokens = Arc::new(|| u128::from(TOKENS.fetch_add(1, Ordering::Relaxed)));
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        SharedRedis::connect(settings, store, clock, tokens).unwrap()
    }

    pub(crate) fn order(&self, size: u64) -> TopUp {
        TopUp {
            size,
            serials_max: 1 << 20,
            bounds: (1, SERIAL_MAX),
            revision: self.revision,
            render: Arc::new(|_| Vec::new()),
            acceptance: 1.0,
            wait: false,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Fills the pool to its size in as many steps as that takes.
    pub(crate) async fn fill(&self, pools: &SharedRedis, size: u64) {
        loop {
            match pools.top_up(&self.pool, self.order(size)).await.unwrap() {
                ToppedUp::Full { .. } => return,
                ToppedUp::Added { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn withdraw(&self, pools: &SharedRedis, count: usize) -> Result<Vec<u64>> {
        pools.withdraw(&self.pool, count).await.map(serials)
    }

    /// The next serial that the counter would give out.
    pub(crate) async fn next_serial(&self) -> u64 {
        self.store.counters(self.pool.type_id).await.unwrap().first().map_or(1, |(_, next)| *next)
    }
}

async fn new_type(store: &SqliteStore, name: &str) -> (PoolKey, i64) {
    let kind = Kind::Sequence(SequenceSpec::default());
    let id_type = IdType::new("acme", name, kind).unwrap();
    let stored = store.create_type(&id_type, &[], Timestamp::UNIX_EPOCH).await.unwrap();
    let pool = PoolKey {
        type_id: stored.id,
        tenant: "acme".to_owned(),
        name: name.to_owned(),
        period: String::new(),
    };
    (pool, stored.revision)
}

/// Patient settings: a busy machine must not look like a slow server.
pub(crate) fn settings(url: &str) -> Settings {
    Settings {
        timeout: Duration::from_secs(2),
        connect_timeout: Duration::from_secs(5),
        lock_ttl: Duration::from_secs(10),
        probe_interval: Duration::from_millis(200),
        retry_delays: (Duration::from_millis(10), Duration::from_millis(100)),
        ..Settings::new(url)
    }
}

/// Settings as they are by default, except that the server is tried more often.
pub(crate) fn prompt_settings(url: &str) -> Settings {
    Settings {
        retry_delays: (Duration::from_millis(10), Duration::from_millis(100)),
        ..Settings::new(url)
    }
}

pub(crate) fn serials(withdrawn: Withdrawn) -> Vec<u64> {
    match withdrawn.items {
        Items::Serials(serials) => serials,
        Items::Ids(ids) => panic!("these are IDs: {ids:?}"),
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !so().await {
        assert!(since.elapsed() < WAIT_MAX, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until pools can be used.
pub(crate) async fn closed(pools: &SharedRedis) {
    until("the breaker closes", async || !pools.is_open()).await;
}

/// Waits until pools are known to be unusable.
pub(crate) async fn opened(pools: &SharedRedis) {
    until("the breaker opens", async || pools.is_open()).await;
}

pub(crate) fn reading(pools: &SharedRedis, name: &str) -> f64 {
    let readings = pools.readings();
    readings.iter().find(|reading| reading.name == name).expect("there is such a reading").value
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a small number")]
pub(crate) fn epoch(pools: &SharedRedis) -> u64 {
    reading(pools, "redis_pool_epoch") as u64
}

/// Sees every serial that was handed out, and that none comes twice.
#[derive(Default)]
pub(crate) struct Ledger {
    seen: HashSet<u64>,
}

impl Ledger {
    pub(crate) fn add(&mut self, serials: &[u64]) {
        for serial in serials {
            assert!(self.seen.insert(*serial), "{serial} was handed out twice");
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    pub(crate) fn is_all_of(&self, mut serials: std::ops::Range<u64>) -> bool {
        let count = usize::try_from(serials.end - serials.start).unwrap();
        self.seen.len() == count && serials.all(|serial| self.seen.contains(&serial))
    }
}
