//! Which batch a serial belongs to, from memory.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use storage::{BatchRange, Store, StoreError, TypeId};
use tokio::time::Instant;

/// How long what was read is good for when a serial is in none of it: another instance may have taken
/// an order since.
const FRESH: Duration = Duration::from_millis(50);

/// The same where being a little late does no harm.
const FRESH_ENOUGH: Duration = Duration::from_secs(1);

/// Batches that are read at a time, so that no step of the store takes long however many there are.
const PAGE: usize = 2000;

/// The batches of one type, in order of serials.
#[derive(Default)]
struct Known {
    batches: Vec<BatchRange>,
    /// When the last look began that found no more.
    read_at: Option<Instant>,
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
        if !self.is(type_id, FRESH_ENOUGH, asked) {
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
        // What was read stays, so whoever comes after a failure goes on where it stopped.
        while !self.is(type_id, fresh, asked) {
            let began = Instant::now();
            // Only what was ordered since: batches of a type are put on record in order of serials.
            let end = self.read().get(&type_id).and_then(Known::end).unwrap_or(0);
            let page = self.store.batch_ranges(type_id, end, PAGE).await?;
            let mut types = self.types.write().unwrap_or_else(PoisonError::into_inner);
            let known = types.entry(type_id).or_default();
            if page.len() < PAGE {
                known.read_at = Some(began);
            }
            known.batches.extend(page);
        }
        Ok(())
    }

    /// Whether the batches of a type were read recently, as seen from a moment.
    fn is(&self, type_id: TypeId, fresh: Duration, asked: Instant) -> bool {
        self.read().get(&type_id).is_some_and(|known| known.is(fresh, asked))
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
        self.read_at.is_some_and(|read_at| asked.saturating_duration_since(read_at) < fresh)
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
