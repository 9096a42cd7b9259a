//! Which batch a serial belongs to, from memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use storage::{BatchId, Ledger, Store, StoreError, TypeId};
use tokio::time::Instant;

/// How long what was read is good for when a serial is in none of it: another instance may have taken
/// an order since.
const FRESH: Duration = Duration::from_millis(50);

/// The same where being a little late does no harm.
const FRESH_ENOUGH: Duration = Duration::from_secs(1);

/// What a scan needs to know about a batch. None of it ever changes.
#[derive(Debug, Clone)]
pub(super) struct BatchRange {
    pub(super) id: BatchId,
    pub(super) serials: Range<u64>,
    pub(super) ledger: Ledger,
}

/// The batches of one type, in order of serials.
struct Known {
    batches: Vec<BatchRange>,
    read_at: Instant,
}

/// What memory says about a serial.
enum Lookup {
    In(BatchRange),
    InNone,
    /// It was read too long ago to tell.
    Stale,
}

/// The batches of all types that were asked for.
pub(super) struct Ranges {
    store: Arc<dyn Store>,
    types: RwLock<HashMap<TypeId, Known>>,
    /// One reads at a time, so that a flood of unknown codes costs one query.
    reading: tokio::sync::Mutex<()>,
}

impl Ranges {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, types: RwLock::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The batch of a serial.
    pub(super) async fn find(
        &self,
        type_id: TypeId,
        serial: u64,
    ) -> Result<Option<BatchRange>, StoreError> {
        let asked = Instant::now();
        match self.look(type_id, serial, asked) {
            Lookup::In(batch) => return Ok(Some(batch)),
            Lookup::InNone => return Ok(None),
            Lookup::Stale => {}
        }
        self.read_news(type_id, asked, FRESH).await?;
        Ok(self.known(type_id, serial))
    }

    /// The batches of those serials that are in one. Asks the store at most once a second for a type,
    /// so it may not know yet what another instance has just ordered.
    pub(super) async fn find_among(
        &self,
        type_id: TypeId,
        serials: impl Iterator<Item = u64>,
    ) -> Result<Vec<(u64, BatchRange)>, StoreError> {
        let asked = Instant::now();
        let fresh = self.read().get(&type_id).is_some_and(|known| known.is(FRESH_ENOUGH, asked));
        if !fresh {
            self.read_news(type_id, asked, FRESH_ENOUGH).await?;
        }
        Ok(serials.filter_map(|serial| Some((serial, self.known(type_id, serial)?))).collect())
    }

    /// Reads what was ordered since the last time, unless somebody else has done so meanwhile.
    async fn read_news(
        &self,
        type_id: TypeId,
        asked: Instant,
        fresh: Duration,
    ) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        if self.read().get(&type_id).is_some_and(|known| known.is(fresh, asked)) {
            return Ok(());
        }
        let read_at = Instant::now();
        // Only what was ordered since: batches of a type are put on record in order of serials.
        let end = self.read().get(&type_id).and_then(Known::end).unwrap_or(0);
        let news = self.store.batches_of_type(type_id, end).await?;
        let news = news.into_iter().map(|batch| BatchRange {
            id: batch.id,
            serials: batch.serials,
            ledger: batch.ledger,
        });
        let mut types = self.types.write().unwrap_or_else(PoisonError::into_inner);
        let known = types.entry(type_id).or_insert_with(|| Known { batches: Vec::new(), read_at });
        known.batches.extend(news);
        known.read_at = read_at;
        Ok(())
    }

    /// The batch of a serial, as far as it was read.
    fn known(&self, type_id: TypeId, serial: u64) -> Option<BatchRange> {
        self.read().get(&type_id)?.batch_of(serial)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<TypeId, Known>> {
        self.types.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, type_id: TypeId, serial: u64, asked: Instant) -> Lookup {
        let types = self.read();
        let Some(known) = types.get(&type_id) else { return Lookup::Stale };
        match known.batch_of(serial) {
            Some(batch) => Lookup::In(batch),
            None if known.is(FRESH, asked) => Lookup::InNone,
            None => Lookup::Stale,
        }
    }
}

impl Known {
    /// Whether it was read recently, as seen from a moment.
    fn is(&self, fresh: Duration, asked: Instant) -> bool {
        asked.saturating_duration_since(self.read_at) < fresh
    }

    /// Where the last batch ends.
    fn end(&self) -> Option<u64> {
        self.batches.last().map(|batch| batch.serials.end)
    }

    fn batch_of(&self, serial: u64) -> Option<BatchRange> {
        let after = self.batches.partition_point(|batch| batch.serials.start <= serial);
        let batch = &self.batches[after.checked_sub(1)?];
        batch.serials.contains(&serial).then(|| batch.clone())
    }
}
