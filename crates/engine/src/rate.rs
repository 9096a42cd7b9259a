//! Limits on requests per second.

use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// Where a caller stands with its rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateState {
    /// Requests per second.
    pub limit: u32,
    /// Requests that could follow at once.
    pub remaining: u32,
    /// Seconds until a refused request may come again; 0 if it was not refused.
    pub retry_after_seconds: u64,
}

/// A number of requests per second, with as many at once.
pub(crate) struct RateLimit {
    limit: NonZeroU32,
    limiter: RateLimiter<NotKeyed, InMemoryState, DefaultClock, StateInformationMiddleware>,
}

impl RateLimit {
    /// A limit; none for none or zero.
    pub(crate) fn per_second(limit: Option<u32>) -> Option<Self> {
        let limit = limit.and_then(NonZeroU32::new)?;
        let limiter = RateLimiter::direct(Quota::per_second(limit)).with_middleware();
        Some(Self { limit, limiter })
    }

    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.limit == other.limit
    }

    /// Counts a request.
    pub(crate) fn count(&self) -> RateState {
        let limit = self.limit.get();
        match self.limiter.check() {
            Ok(snapshot) => RateState {
                limit,
                remaining: snapshot.remaining_burst_capacity(),
                retry_after_seconds: 0,
            },
            Err(refused) => {
                let wait = refused.wait_time_from(DefaultClock::default().now());
                RateState { limit, remaining: 0, retry_after_seconds: wait.as_secs() + 1 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_limit_are_told_when_to_come_back() {
        let limit = RateLimit::per_second(Some(2)).unwrap();
        let states = [limit.count(), limit.count(), limit.count()];
        assert_eq!(states.map(|s| s.retry_after_seconds), [0, 0, 1]);
        assert_eq!(states[0].remaining, 1);
        assert!(RateLimit::per_second(None).is_none());
        assert!(RateLimit::per_second(Some(0)).is_none());
    }
}
