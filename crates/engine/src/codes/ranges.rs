//! Which batch a serial belongs to, from memory.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use storage::{BatchRange, Store, StoreError, TypeId};
use tokio::time::Instant;

use super::single_flight::SingleFlight;

/// The time between two reads. Whoever asks for a serial that is in no batch waits for one that begins
/// afterwards, because another instance may have taken an order since the last: a flood of unknown codes
/// costs so many queries and no more.
const PACE: Duration = Duration::from_millis(50);

/// How long what was read is good for where being a little late does no harm.
const FRESH_ENOUGH: Duration = Duration::from_secs(1);

/// Batches that are read at a time, so that no step of the store takes long however many there are.
const PAGE: usize = 2000;

/// The batches of one type.
#[derive(Default)]
struct OfType {
    known: RwLock<Known>,
    /// One reads at a time, for all who wait. Each type by itself: a database that is slow holds up only
    /// those who ask for what is there.
    reading: SingleFlight<StoreError>,
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
    /// How long what was read is good for. Who is alone knows of every order.
    fresh: Duration,
    types: RwLock<HashMap<TypeId, Arc<OfType>>>,
}

impl Ranges {
    pub(super) fn new(store: Arc<dyn Store>, is_alone: bool) -> Self {
        let fresh = if is_alone { Duration::MAX } else { Duration::ZERO };
        Self { store, fresh, types: RwLock::default() }
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
        self.read_news(type_id, &of_type, asked, self.fresh).await?;
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
        let fresh = self.fresh.max(FRESH_ENOUGH);
        self.read_news(type_id, &of_type, Instant::now(), fresh).await?;
        let known = of_type.known();
        Ok(serials.filter_map(|serial| Some((serial, known.batch_of(serial)?))).collect())
    }

    /// Reads what was ordered since the last time, unless that was no longer before somebody `asked` than
    /// is `fresh`.
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
            let next_at = of_type.known().next_at();
            if let Some(next_at) = next_at {
                tokio::time::sleep_until(next_at).await;
            }
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
        let is_recent = |read_at| asked.saturating_duration_since(read_at) <= fresh;
        self.read_at.is_some_and(is_recent) && !self.is_behind()
    }

    /// When it may be read again; none is at once.
    fn next_at(&self) -> Option<Instant> {
        self.read_at.filter(|_| !self.is_behind()).map(|read_at| read_at + PACE)
    }

    /// Whether this instance has taken an order since.
    fn is_behind(&self) -> bool {
        self.ordered_at > self.read_at
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
