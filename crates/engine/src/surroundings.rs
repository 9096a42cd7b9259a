//! What the engine needs from the world: the time, chance, and a place to remember things.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use storage::Store;

use crate::metrics::EngineMetrics;

/// The wall clock.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// The same as a timestamp.
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.now_ms()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// A source of secrets.
pub trait Entropy: Send + Sync {
    /// Fills the buffer with bytes that nobody can predict.
    fn fill(&self, bytes: &mut [u8]);
}

/// What parts of the engine have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<EngineMetrics>,
}

impl Common {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// Days are counted in UTC, so that every instance changes the date at the same moment.
pub(crate) fn day_of(now_ms: i64) -> i64 {
    now_ms.div_euclid(24 * 60 * 60 * 1000)
}

pub(crate) fn date_of(now: Timestamp) -> Date {
    jiff::tz::Offset::UTC.to_datetime(now).date()
}
