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
        let _reading = self.reading.lock().await;
        // Whoever was before us may have read it.
        match self.look(type_id, serial, asked) {
            Lookup::In(batch) => return Ok(Some(batch)),
            Lookup::InNone => return Ok(None),
            Lookup::Stale => {}
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
        Ok(known.batch_of(serial))
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<TypeId, Known>> {
        self.types.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, type_id: TypeId, serial: u64, asked: Instant) -> Lookup {
        let types = self.read();
        let Some(known) = types.get(&type_id) else { return Lookup::Stale };
        match known.batch_of(serial) {
            Some(batch) => Lookup::In(batch),
            None if asked.saturating_duration_since(known.read_at) < FRESH => Lookup::InNone,
            None => Lookup::Stale,
        }
    }
}

impl Known {
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
