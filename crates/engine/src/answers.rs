//! Idempotency: the same request with the same key gets the same answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};
use storage::{Answer, AnswerClaim, AnswerKey, Claimant, Store, StoreError};
use tracing::warn;

use crate::surroundings::{Clock, Common};

/// Longest key that is accepted.
pub const KEY_CHARS_MAX: usize = 255;

/// A claim that is older than any request can be belongs to a process that is gone. This is the
/// time beyond the longest request.
const STALE_MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// Expired answers that one sweep removes.
const PURGE_AT_ONCE: u32 = 10_000;

/// What is known about a request.
#[derive(Debug)]
pub enum Known {
    /// Nothing: do the work, then keep or release the claim.
    New(Claim),
    /// The answer.
    Answered(Answer),
    /// Somebody is working on it.
    InFlight,
    /// The key belongs to another request.
    OtherBody,
}

/// A request that is being worked on.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    key: AnswerKey,
    claimant: Claimant,
}

/// Remembers answers.
pub struct Answers {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    instance: String,
    claims: AtomicI64,
    keep_for: SignedDuration,
    stale_after: SignedDuration,
}

impl Answers {
    /// Keeps answers for a time.
    pub(crate) fn new(
        common: &Common,
        instance: String,
        keep_for: Duration,
        request_time_max: Duration,
    ) -> Self {
        let Common { store, clock, .. } = common.clone();
        let signed = |time| SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let stale_after = signed(request_time_max).saturating_add(STALE_MARGIN);
        let (claims, keep_for) = (AtomicI64::new(0), signed(keep_for));
        Self { store, clock, instance, claims, keep_for, stale_after }
    }

    /// Looks a request up, and claims it if it is new.
    pub async fn look_up(
        &self,
        scope: String,
        key: String,
        body: &[u8],
    ) -> Result<Known, StoreError> {
        let key = AnswerKey { scope, key };
        let hash: [u8; 32] = Sha256::digest(body).into();
        let now = self.clock.now();
        let stale_before = now.checked_sub(self.stale_after).unwrap_or(Timestamp::MIN);
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        let claimant = Claimant { instance: self.instance.clone(), number };
        Ok(match self.store.claim_answer(&key, &hash, &claimant, now, stale_before).await? {
            AnswerClaim::New => Known::New(Claim { key, claimant }),
            AnswerClaim::Answered(answer) => Known::Answered(answer),
            AnswerClaim::InFlight => Known::InFlight,
            AnswerClaim::OtherBody => Known::OtherBody,
        })
    }

    /// Keeps the answer to a request. It must not be sent before this succeeded.
    pub async fn keep(&self, claim: Claim, answer: &Answer) -> Result<(), StoreError> {
        let expires = self.clock.now().checked_add(self.keep_for).unwrap_or(Timestamp::MAX);
        let kept = self.store.keep_answer(&claim.key, &claim.claimant, answer, expires).await;
        if kept.is_err() {
            self.release(claim).await;
        }
        kept
    }

    /// Forgets a request that failed, so that it can be tried again.
    pub async fn release(&self, claim: Claim) {
        if let Err(problem) = self.store.release_answer(&claim.key, &claim.claimant).await {
            warn!(
                "cannot release an idempotency key, it is free again once it is stale: {problem}"
            );
        }
    }

    /// Removes every expired answer, a few at a time, and the keys of scans that nobody can come back with.
    pub async fn purge(&self) -> Result<(), StoreError> {
        while self.store.purge_answers(self.clock.now(), PURGE_AT_ONCE).await? > 0 {}
        let age = self.keep_for.saturating_add(self.stale_after);
        let before = self.clock.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        while self.store.forget_scan_keys(before, PURGE_AT_ONCE).await? > 0 {}
        Ok(())
    }
}
