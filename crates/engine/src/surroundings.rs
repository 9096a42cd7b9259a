//! What the engine needs from the world: the time, and chance.

use jiff::Timestamp;
use jiff::civil::Date;

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

/// Days are counted in UTC, so that every instance changes the date at the same moment.
pub(crate) fn day_of(now_ms: i64) -> i64 {
    now_ms.div_euclid(24 * 60 * 60 * 1000)
}

pub(crate) fn date_of(now: Timestamp) -> Date {
    jiff::tz::Offset::UTC.to_datetime(now).date()
}
