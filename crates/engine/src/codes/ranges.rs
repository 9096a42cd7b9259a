//! Which batch a serial belongs to, from memory.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use storage::{BatchRange, Store, StoreError, TypeId};
use tokio::time::Instant;

use super::turns::Turns;

/// How long what was read is good for when a serial is in none of it: another instance may have taken
/// an order since.
const FRESH: Duration = Duration::from_millis(50);

/// The same where being a little late does no harm.
const FRESH_ENOUGH: Duration = Duration::from_secs(1);

/// Batches that are read at a time, so that no step of the store takes long however many there are.
const PAGE: usize = 2000;

/// The batches of one type.
#[derive(Default)]
struct OfType {
    known: RwLock<Known>,
    /// One reads at a time, so that a flood of unknown codes costs one query. Each type has its own
    /// turns: a database that is slow holds up only those who ask for what is there.
    reading: Turns<StoreError>,
}

/// The batches of one type that were read, in order of serials.
#[derive(Default)]
struct Known {
    batches: Vec<BatchRange>,
    /// When the last look began that found no more.
    read_at: Option<Instant>,
    /// When this instance last took an order.
    ordered_at: Option<Instant>,
}

/// The batches of all types that were asked for.
pub(super) struct Ranges {
    store: Arc<dyn Store>,
    types: RwLock<HashMap<TypeId, Arc<OfType>>>,
}

impl Ranges {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, types: RwLock::default() }
    }

    /// Notes that a batch was ordered here: whoever asks from now on is told of it.
    pub(super) fn note_order(&self, type_id: TypeId) {
        let of_type = self.of_type(type_id);
        let mut known = of_type.known.write().unwrap_or_else(PoisonError::into_inner);
        known.ordered_at = Some(Instant::now());
    }

    /// The batch of a serial.
    pub(super) async fn find(
        &self,
        type_id: TypeId,
        serial: u64,
    ) -> Result<Option<BatchRange>, StoreError> {
        let asked = Instant::now();
        let of_type = self.of_type(type_id);
        if let Some(batch) = of_type.known().batch_of(serial) {
            return Ok(Some(batch));
        }
        self.read_news(type_id, &of_type, asked, FRESH).await?;
        Ok(of_type.known().batch_of(serial))
    }

    /// The batches of those serials that are in one. Asks the store at most once a second for a type,
    /// so it may not know yet what another instance has just ordered.
    pub(super) async fn find_among(
        &self,
        type_id: TypeId,
        serials: impl Iterator<Item = u64>,
    ) -> Result<Vec<(u64, BatchRange)>, StoreError> {
        let of_type = self.of_type(type_id);
        self.read_news(type_id, &of_type, Instant::now(), FRESH_ENOUGH).await?;
        let known = of_type.known();
        Ok(serials.filter_map(|serial| Some((serial, known.batch_of(serial)?))).collect())
    }

    /// Reads what was ordered since the last time, unless that was not long before somebody `asked`.
    async fn read_news(
        &self,
        type_id: TypeId,
        of_type: &OfType,
        asked: Instant,
        fresh: Duration,
    ) -> Result<(), StoreError> {
        let is_read = || of_type.known().is(fresh, asked);
        if is_read() {
            return Ok(());
        }
        // What was read stays, so whoever comes after a failure goes on where it stopped.
        let read = async {
            while !is_read() {
                let began = Instant::now();
                // Only what was ordered since: batches of a type are put on record in order of serials.
                let end = of_type.known().end();
                let page = self.store.batch_ranges(type_id, end, PAGE).await?;
                of_type.learn(page, began);
            }
            Ok(())
        };
        of_type.reading.take(asked, is_read, read).await
    }

    fn of_type(&self, type_id: TypeId) -> Arc<OfType> {
        let types = self.types.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = types.get(&type_id) {
            return Arc::clone(known);
        }
        drop(types);
        let mut types = self.types.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(types.entry(type_id).or_default())
    }
}

impl OfType {
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a page that somebody began to read at a moment. A full one has others behind it.
    fn learn(&self, page: Vec<BatchRange>, began: Instant) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if page.len() < PAGE {
            known.read_at = Some(began);
        }
        known.batches.extend(page);
    }
}

impl Known {
    /// Whether it was read recently, as seen from a moment, and since the last order.
    fn is(&self, fresh: Duration, asked: Instant) -> bool {
        self.read_at.is_some_and(|read_at| {
            asked.saturating_duration_since(read_at) < fresh
                && self.ordered_at.is_none_or(|ordered_at| ordered_at <= read_at)
        })
    }

    /// Where the last batch ends.
    fn end(&self) -> u64 {
        self.batches.last().map_or(0, |batch| batch.serials.end)
    }

    fn batch_of(&self, serial: u64) -> Option<BatchRange> {
        let after = self.batches.partition_point(|batch| batch.serials.start <= serial);
        let batch = &self.batches[after.checked_sub(1)?];
        batch.serials.contains(&serial).then(|| batch.clone())
    }
}
