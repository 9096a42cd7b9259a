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
    /// Failures in a row, until it is left alone.
    failures: u32,
    open: Option<Open>,
}

/// That a receiver is being left alone.
#[derive(Debug, Clone, Copy)]
struct Open {
    since: Instant,
    pause: Duration,
}

impl Open {
    fn until(self) -> Instant {
        self.since + self.pause
    }
}

impl Breaker {
    /// How many of so many deliveries may be tried now: all, none, or one to see whether it works
    /// again.
    pub(super) fn allows(&self, wanted: usize, now: Instant) -> usize {
        match self.open {
            None => wanted,
            Some(open) if now < open.until() => 0,
            Some(_) => wanted.min(1),
        }
    }

    /// Whether it is being left alone, or was until a moment ago and has not worked since.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    /// An attempt has failed that began at a time.
    pub(super) fn failed(&mut self, began: Instant, now: Instant) {
        let pause = match self.open {
            // It was under way when others had failed, and says nothing new.
            Some(open) if began < open.until() => return,
            Some(open) => open.pause.saturating_mul(2).min(PAUSE_MAX),
            None => PAUSE_MIN,
        };
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.open = Some(Open { since: now, pause });
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
            breaker.failed(start, start);
            assert_eq!(breaker.allows(8, start), 8);
        }
        breaker.failed(start, start);
        assert_eq!(breaker.allows(8, start), 0);
        let later = start + PAUSE_MIN;
        assert_eq!(breaker.allows(8, later), 1);
        breaker.failed(later, later);
        assert_eq!(breaker.allows(8, later + PAUSE_MIN), 0);
        assert_eq!(breaker.allows(8, later + PAUSE_MIN * 2), 1);
        let mut probe = later;
        for _ in 0..100 {
            probe += PAUSE_MAX;
            breaker.failed(probe, probe);
        }
        assert_eq!(breaker.allows(8, probe + PAUSE_MAX / 2), 0);
        assert_eq!(breaker.allows(8, probe + PAUSE_MAX), 1);
        breaker.worked();
        assert_eq!(breaker.allows(8, later), 8);
    }

    /// However many fail together, and however late they say so, it is one experience.
    #[test]
    fn what_was_under_way_does_not_count_again() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for place in 0..64 {
            breaker.failed(start, start + PAUSE_MIN * place / 8);
        }
        let opened = start + PAUSE_MIN * (FAILURES_MAX - 1) / 8;
        assert_eq!(breaker.allows(8, opened + PAUSE_MIN / 2), 0);
        assert_eq!(breaker.allows(8, opened + PAUSE_MIN), 1);
    }
}
