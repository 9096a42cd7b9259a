//! What there is to measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage::Reading;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often something was done, and how long it took altogether.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    times: Count,
    micros: Count,
}

impl Spent {
    pub(crate) fn add(&self, time: Duration) {
        self.times.add(1);
        self.micros.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) openings: Count,
    pub(crate) connections: Count,
    pub(crate) connect_failures: Count,
    pub(crate) lock_waits: Count,
    pub(crate) locks_lost: Count,
    pub(crate) strays_kept: Count,
    pub(crate) strays_dropped: Count,
    pub(crate) pushes_unknown: Count,
    pub(crate) keys_swept: Count,
    pub(crate) notes_refused: Count,
    pub(crate) turns_taken: Count,
    pub(crate) turns_returned: Count,
    pub(crate) progress_found: Count,
    pub(crate) hot_codes_found: Count,
    pub(crate) withdraws: Spent,
    pub(crate) pushes: Spent,
}

impl Figures {
    /// The readings, with the state of the breaker and the epoch.
    pub(crate) fn readings(&self, open: bool, epoch: u64) -> Vec<Reading> {
        let mut readings = vec![
            gauge(
                "redis_breaker_open",
                "Whether the breaker is open, so that serials are drawn from the database",
                f64::from(u8::from(open)),
            ),
            gauge("redis_pool_epoch", "The epoch of the pools in use, or used last", exact(epoch)),
        ];
        let counters = [
            ("redis_breaker_openings", "Times that the breaker opened", &self.openings),
            ("redis_connections", "Connections that were made and trusted", &self.connections),
            ("redis_connect_failures", "Attempts to connect that failed", &self.connect_failures),
            ("redis_lock_waits", "Refills that found another instance at work", &self.lock_waits),
            (
                "redis_locks_lost",
                "Refills that lost their lock in the middle and gave back the rest",
                &self.locks_lost,
            ),
            (
                "redis_stray_serials",
                "Serials that came too late for their request and were kept for the next",
                &self.strays_kept,
            ),
            (
                "redis_stray_serials_dropped",
                "Serials that came too late and belong to an epoch that has ended",
                &self.strays_dropped,
            ),
            (
                "redis_pushes_unknown",
                "Serials whose push was not confirmed; they are never pushed again",
                &self.pushes_unknown,
            ),
            ("redis_keys_swept", "Keys of ended epochs that were deleted", &self.keys_swept),
            (
                "redis_notes_refused",
                "Commands about turns, progress or hot codes that the server has refused",
                &self.notes_refused,
            ),
            ("redis_turns_taken", "Turns of tenants that workers took", &self.turns_taken),
            (
                "redis_turns_returned",
                "Turns that were put back because their worker was silent for too long",
                &self.turns_returned,
            ),
            ("redis_progress_found", "Looks at a batch that Redis answered", &self.progress_found),
            ("redis_hot_codes_found", "Looks at a code that Redis answered", &self.hot_codes_found),
            ("redis_withdraws", "Withdrawals from pools", &self.withdraws.times),
            ("redis_pushes", "Rounds of pushing to pools", &self.pushes.times),
        ];
        readings
            .extend(counters.map(|(name, help, count)| counter(name, help, exact(count.get()))));
        readings.push(counter(
            "redis_withdraw_seconds",
            "Time that withdrawals took",
            exact(self.withdraws.micros.get()) / 1e6,
        ));
        readings.push(counter(
            "redis_push_seconds",
            "Time that pushing took",
            exact(self.pushes.micros.get()) / 1e6,
        ));
        readings
    }
}

#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
fn exact(number: u64) -> f64 {
    number as f64
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Reading {
    Reading { name, help, counter: false, labels: Vec::new(), value }
}

fn counter(name: &'static str, help: &'static str, value: f64) -> Reading {
    Reading { counter: true, ..gauge(name, help, value) }
}
