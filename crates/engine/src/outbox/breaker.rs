//! Leaves receivers alone that do not work, so that they hold up nobody else.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row before a receiver is left alone.
const FAILURES_MAX: u32 = 5;

/// How long at first, and how long at most; it doubles in between.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How one receiver did lately.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open_until: Option<Instant>,
}

impl Breaker {
    /// How many of so many deliveries may be tried now: all, none, or one to see whether it works
    /// again.
    pub(super) fn allows(&self, wanted: usize, now: Instant) -> usize {
        match self.open_until {
            None => wanted,
            Some(until) if now < until => 0,
            Some(_) => wanted.min(1),
        }
    }

    /// Whether it is being left alone, or was until a moment ago and has not worked since.
    pub(super) fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if let Some(beyond) = self.failures.checked_sub(FAILURES_MAX) {
            let pause = PAUSE_MIN.saturating_mul(1 << beyond.min(6)).min(PAUSE_MAX);
            self.open_until = Some(now + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_fails_again_and_again_is_left_alone_for_longer_and_longer() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 1..FAILURES_MAX {
            breaker.failed(start);
            assert_eq!(breaker.allows(8, start), 8);
        }
        breaker.failed(start);
        assert_eq!(breaker.allows(8, start), 0);
        let later = start + PAUSE_MIN;
        assert_eq!(breaker.allows(8, later), 1);
        breaker.failed(later);
        assert_eq!(breaker.allows(8, later + PAUSE_MIN), 0);
        assert_eq!(breaker.allows(8, later + PAUSE_MIN * 2), 1);
        for _ in 0..100 {
            breaker.failed(later);
        }
        assert_eq!(breaker.allows(8, later + PAUSE_MAX), 1);
        breaker.worked();
        assert_eq!(breaker.allows(8, later), 8);
    }
}
