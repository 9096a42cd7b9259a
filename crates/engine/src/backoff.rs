//! How long to wait before something that failed is tried again.

use std::time::Duration;

use crate::surroundings::Entropy;

/// A wait that grows with every attempt.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// How often to try again.
    pub retries: u32,
    /// The wait before the first time.
    pub first: Duration,
    /// Each further wait is so many times as long.
    pub factor: u32,
}

impl Backoff {
    /// How long to wait after an attempt, counted from 1; none if it was the last one. Up to half of
    /// the wait is left to chance, so that what failed together does not come back together.
    pub(crate) fn delay(&self, attempt: u32, entropy: &dyn Entropy) -> Option<Duration> {
        if attempt > self.retries {
            return None;
        }
        let mut chance = [0];
        entropy.fill(&mut chance);
        let times = self.factor.saturating_pow(attempt.saturating_sub(1));
        Some(self.first.saturating_mul(times).mul_f64(0.5 + f64::from(chance[0]) / 512.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Same(u8);

    impl Entropy for Same {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn waits_grow_and_end() {
        let backoff = Backoff { retries: 3, first: Duration::from_secs(4), factor: 2 };
        let waits = |chance| [1, 2, 3, 4].map(|attempt| backoff.delay(attempt, &Same(chance)));
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(waits(0), [seconds(2), seconds(4), seconds(8), None]);
        assert_eq!(waits(128), [seconds(3), seconds(6), seconds(12), None]);
    }

    #[test]
    fn a_wait_that_cannot_be_told_is_as_long_as_any() {
        let backoff = Backoff { retries: 100, first: Duration::from_secs(5), factor: 10 };
        assert!(backoff.delay(100, &Same(0)) > Some(Duration::from_secs(24 * 3600)));
    }
}
