//! Batches: many codes, ordered at once and made in the background.

mod dead_letters;
mod ending;
mod error;
mod following;
mod manifests;
mod order;
mod turns;
mod worker;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use storage::{Batch, BatchFilter, BatchId, Noticeboard, Store, StoreError, TypeId};
use tokio::sync::Notify;
use tracing::info;

pub use self::error::BatchError;
pub use self::order::BatchRequest;
pub(crate) use self::worker::Worker;

use self::turns::Turns;
use crate::LiveType;
use crate::audit::Audit;
use crate::backoff::Backoff;
use crate::catalogue::Catalogue;
use crate::codes::Codes;
use crate::metrics::EngineMetrics;
use crate::surroundings::{Clock, Common};

/// Settings of batches.
#[derive(Debug, Clone, Copy)]
pub struct BatchSettings {
    /// Chunks that this instance works on at once.
    pub workers: usize,
    /// Most codes of one batch.
    pub count_max: u64,
    /// Codes of a chunk.
    pub chunk_codes: u64,
    /// Batches of one tenant that may be under way.
    pub active_max: u64,
    /// Codes that one tenant may order in all.
    pub codes_max: u64,
    /// A chunk whose worker has been silent for so long is given to another.
    pub silent: Duration,
    /// When a chunk that failed is tried again.
    pub backoff: Backoff,
}

/// Takes orders, and tells how they stand.
pub struct Batches {
    store: Arc<dyn Store>,
    catalogue: Arc<Catalogue>,
    clock: Arc<dyn Clock>,
    metrics: Arc<EngineMetrics>,
    audit: Audit,
    settings: BatchSettings,
    /// Where codes are looked for.
    codes: Arc<Codes>,
    /// What instances tell each other.
    board: Option<Arc<dyn Noticeboard>>,
    turns: Arc<Turns>,
    /// Wakes idle workers of this instance.
    work: Arc<Notify>,
    /// Says that a batch may have come to a state which others want to know of.
    news: Arc<Notify>,
}

impl Batches {
    pub(crate) fn new(
        common: &Common,
        catalogue: Arc<Catalogue>,
        settings: BatchSettings,
        codes: Arc<Codes>,
        news: Arc<Notify>,
        board: Option<Arc<dyn Noticeboard>>,
    ) -> Arc<Self> {
        let Common { store, clock, metrics, .. } = common.clone();
        let work = Arc::new(Notify::new());
        let turns = Arc::new(Turns::new(board.clone()));
        let (wake, heard) = (Arc::downgrade(&work), Arc::clone(&turns));
        store.on_order(Arc::new(move || {
            let Some(work) = wake.upgrade() else { return };
            // Whoever waits for turns is called by these, unless the order is of an instance that cannot
            // offer any. One worker finds out.
            if heard.are_heard() { work.notify_one() } else { work.notify_waiters() }
        }));
        let audit = Audit::new(common);
        Arc::new(Self {
            store,
            catalogue,
            clock,
            metrics,
            audit,
            settings,
            codes,
            board,
            turns,
            work,
            news,
        })
    }

    /// A batch and its type, as far as one tenant may see them; none is every tenant.
    pub async fn find(
        &self,
        id: BatchId,
        tenant: Option<&str>,
    ) -> Result<(Batch, Arc<LiveType>), BatchError> {
        let batch = self.store.batch(id).await?.ok_or(BatchError::NotFound)?;
        let live = self.type_of(batch.type_id, tenant).ok_or(BatchError::NotFound)?;
        Ok((batch, live))
    }

    /// Batches with their types, the latest first.
    pub async fn list(
        &self,
        tenant: Option<&str>,
        type_name: Option<&str>,
        mut filter: BatchFilter,
    ) -> Result<Vec<(Batch, Arc<LiveType>)>, BatchError> {
        filter.types = self.types(tenant, type_name);
        let batches = self.store.batches(&filter).await?;
        let with_type = |batch: Batch| Some((self.type_of(batch.type_id, tenant)?, batch));
        Ok(batches.into_iter().filter_map(with_type).map(|(live, batch)| (batch, live)).collect())
    }

    /// The serials of a batch that are made.
    pub async fn made(&self, batch: &Batch) -> Result<Vec<Range<u64>>, BatchError> {
        if batch.made == batch.count() {
            return Ok(vec![batch.serials.clone()]);
        }
        Ok(self.store.made(batch.id).await?)
    }

    /// Calls workers, on all instances if that is possible, to tenants that have chunks to be done.
    async fn call_workers(&self, tenants: &[&str]) {
        if !self.turns.offer(tenants).await {
            self.work.notify_waiters();
        }
    }

    /// Gives back what instances that are gone were working on.
    pub(crate) async fn release_lost(&self, instance: &str) -> Result<(), StoreError> {
        let chunks = self.store.release_lost_chunks(instance).await?;
        if chunks > 0 {
            info!(chunks, "took back {chunks} chunks of batches from instances that are gone");
            self.work.notify_waiters();
        }
        Ok(())
    }

    /// The types that a list is about; none is all.
    fn types(&self, tenant: Option<&str>, type_name: Option<&str>) -> Option<Vec<TypeId>> {
        if tenant.is_none() && type_name.is_none() {
            return None;
        }
        let all = self.catalogue.all();
        let wanted = all.iter().filter(|live| {
            let id_type = &live.stored().id_type;
            tenant.is_none_or(|tenant| tenant == id_type.tenant())
                && type_name.is_none_or(|name| name == id_type.name())
        });
        Some(wanted.map(|live| live.stored().id).collect::<HashSet<_>>().into_iter().collect())
    }

    fn type_of(&self, id: TypeId, tenant: Option<&str>) -> Option<Arc<LiveType>> {
        let live = self.catalogue.by_id(id)?;
        tenant.is_none_or(|tenant| tenant == live.stored().id_type.tenant()).then_some(live)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl From<StoreError> for BatchError {
    fn from(error: StoreError) -> Self {
        Self::Issue(error.into())
    }
}
