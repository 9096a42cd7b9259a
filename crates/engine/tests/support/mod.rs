//! An engine on the embedded store, with a clock and chance that tests can set.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use engine::backoff::Backoff;
use engine::batches::{BatchRequest, BatchSettings};
use engine::issuing::{IssuingSettings, SharedPoolSet};
use engine::outbox::{Carrier, DeliverySettings, Letter, OutboxSettings, Reply, WriteOrder};
use engine::surroundings::{Clock, Entropy};
use engine::{Engine, EngineParts, EngineSettings, MasterKey};
use idgen::key::TypeKey;
use storage_sqlite::SqliteStore;
use tempfile::TempDir;

/// 2026-11-15T12:00:00Z.
pub(crate) const NOON_MS: i64 = 1_794_744_000_000;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// A clock that stands still until it is set.
#[derive(Clone)]
pub(crate) struct SetClock(Arc<AtomicI64>);

impl SetClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(NOON_MS)))
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Different bytes at every call, and the same in every run.
pub(crate) struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.0.fetch_add(1, Ordering::SeqCst).wrapping_mul(37).to_le_bytes()[0];
        }
    }
}

pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) clock: SetClock,
    starts: u64,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), clock: SetClock::new(), starts: 0 }
    }

    pub(crate) async fn start(&mut self) -> Arc<Engine> {
        let store = Arc::new(open(self.directory.path()));
        self.start_with(store, Arc::new(NoCarrier)).await
    }

    /// The same with a carrier, on a store that the test can reach as well.
    pub(crate) async fn start_with(
        &mut self,
        store: Arc<SqliteStore>,
        carrier: Arc<dyn Carrier>,
    ) -> Arc<Engine> {
        self.start_set(store, carrier, &settings()).await
    }

    /// The same with other settings.
    pub(crate) async fn start_set(
        &mut self,
        store: Arc<SqliteStore>,
        carrier: Arc<dyn Carrier>,
        settings: &EngineSettings,
    ) -> Arc<Engine> {
        let parts = self.parts(store, carrier);
        Arc::new(Engine::start(parts, *settings).await.unwrap())
    }

    /// What an engine is made from.
    pub(crate) fn parts(
        &mut self,
        store: Arc<SqliteStore>,
        carrier: Arc<dyn Carrier>,
    ) -> EngineParts {
        self.starts += 1;
        EngineParts {
            store,
            clock: Arc::new(self.clock.clone()),
            entropy: Arc::new(Counting(AtomicU64::new(0))),
            master_key: MasterKey::new(&TypeKey::new([5; 32])),
            instance: format!("instance-{}", self.starts),
            shared_pools: SharedPoolSet::default(),
            board: None,
            carrier,
        }
    }
}

/// A store whose process was killed may need a moment until its lock is gone.
pub(crate) fn open(directory: &Path) -> SqliteStore {
    loop {
        match SqliteStore::open(directory) {
            Ok(store) => return store,
            Err(error) if error.to_string().contains("in use") => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) const NO_RETRIES: Backoff =
    Backoff { retries: 0, first: Duration::from_millis(1), factor: 1 };

pub(crate) const NO_DELIVERIES: DeliverySettings =
    DeliverySettings { timeout: Duration::from_secs(1), at_once: 1, backoff: NO_RETRIES };

/// Nothing here has webhooks or sinks.
pub(crate) struct NoCarrier;

#[async_trait::async_trait]
impl Carrier for NoCarrier {
    fn check_address(&self, _: &str) -> Result<(), String> {
        Err("nothing is sent from here".to_owned())
    }

    async fn check_directory(&self, _: &str) -> Result<(), String> {
        Err("nothing is written from here".to_owned())
    }

    async fn post(&self, _: Letter) -> Result<Reply, String> {
        Err("nothing is sent from here".to_owned())
    }

    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>> {
        vec![Err("nothing is written from here".to_owned()); order.files.len()]
    }
}

/// Takes everything.
pub(crate) struct OpenCarrier;

#[async_trait::async_trait]
impl Carrier for OpenCarrier {
    fn check_address(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn check_directory(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, _: Letter) -> Result<Reply, String> {
        Ok(Reply { status: 204, retry_after: None })
    }

    async fn write(&self, order: WriteOrder) -> Vec<Result<(), String>> {
        vec![Ok(()); order.files.len()]
    }
}

pub(crate) fn settings() -> EngineSettings {
    EngineSettings {
        issuing: IssuingSettings {
            count_max: 10_000,
            pool_sizes: (64, 4096),
            watermark: 0.75,
            refills_at_once: 2,
            wait_max: Duration::from_secs(10),
            log_flush: Duration::from_millis(20),
        },
        batches: BatchSettings {
            workers: 0,
            count_max: 1000,
            chunk_codes: 100,
            active_max: 1,
            codes_max: 1000,
            silent: Duration::from_secs(60),
            backoff: NO_RETRIES,
        },
        outbox: OutboxSettings {
            webhooks: NO_DELIVERIES,
            documents: NO_DELIVERIES,
            keep: Duration::from_secs(3600),
        },
        keep_answers: Duration::from_secs(3600),
        keep_contexts: Duration::from_secs(3600),
        request_time_max: Duration::from_secs(30),
        default_rate: None,
        lease: Duration::from_secs(10),
        pool_check: Duration::from_secs(30),
        reconcile: Duration::from_secs(3600),
    }
}

/// An order for one code of a type.
pub(crate) fn one_code(type_name: &str) -> BatchRequest<'_> {
    BatchRequest {
        tenant: "default",
        type_name,
        count: 1,
        name: None,
        metadata: None,
        notify: None,
        key_id: 7,
        order_key: None,
    }
}
