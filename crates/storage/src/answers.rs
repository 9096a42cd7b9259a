//! Answers to requests with an idempotency key.

use async_trait::async_trait;
use jiff::Timestamp;

use crate::Result;

/// Which request an answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// Whose it is: keys of different callers and calls never meet.
    pub scope: String,
    /// What the client sent.
    pub key: String,
}

/// An answer as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// Who works on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The instance.
    pub instance: String,
    /// Tells the claims of one instance apart.
    pub number: i64,
}

/// What a store knows about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerClaim {
    /// Nothing. It is now claimed, and whoever claimed it has to keep or release it.
    New,
    /// It was answered.
    Answered(Answer),
    /// Somebody is working on it.
    InFlight,
    /// The key was used for a request with another body.
    OtherBody,
}

/// Remembers answers.
#[async_trait]
pub trait AnswerStore {
    /// Looks a request up and claims it if it is new. A claim of an instance that is gone, or from
    /// before `stale_before`, is taken over. An expired answer counts as nothing.
    async fn claim_answer(
        &self,
        key: &AnswerKey,
        body_hash: &[u8; 32],
        claimant: &Claimant,
        now: Timestamp,
        stale_before: Timestamp,
    ) -> Result<AnswerClaim>;

    /// Keeps the answer to a request until it expires. [`StoreError::NotFound`](crate::StoreError)
    /// if the claim is no longer the claimant's: then the answer must not be sent.
    async fn keep_answer(
        &self,
        key: &AnswerKey,
        claimant: &Claimant,
        answer: &Answer,
        expires_at: Timestamp,
    ) -> Result<()>;

    /// Forgets a claim, because the request failed and may be tried again. A claim that is no
    /// longer the claimant's stays.
    async fn release_answer(&self, key: &AnswerKey, claimant: &Claimant) -> Result<()>;

    /// Forgets answers that have expired and claims that are a day old, at most so many, and
    /// returns how many they were.
    async fn purge_answers(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
