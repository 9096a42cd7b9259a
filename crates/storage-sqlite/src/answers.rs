//! Answers to requests with an idempotency key.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{Answer, AnswerClaim, AnswerKey, AnswerStore, Claimant, Result, StoreError};

use crate::SqliteStore;
use crate::error::StepResult;
use crate::time::Millis;

/// A row of the table.
struct Remembered {
    body_hash: Vec<u8>,
    claimed_at: Timestamp,
    claimant: Claimant,
    /// The answer and when it expires. None while somebody works on it.
    answer: Option<(Answer, Timestamp)>,
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<Remembered> {
    let answer = match row.get("status")? {
        None => None,
        Some(status) => {
            let expires_at: Millis = row.get("expires_at")?;
            Some((Answer { status, body: row.get("body")? }, expires_at.0))
        }
    };
    let claimed_at: Millis = row.get("claimed_at")?;
    let claimant = Claimant { instance: row.get("instance")?, number: row.get("number")? };
    Ok(Remembered { body_hash: row.get("body_hash")?, claimed_at: claimed_at.0, claimant, answer })
}

fn find(connection: &Connection, key: &AnswerKey) -> rusqlite::Result<Option<Remembered>> {
    connection
        .prepare_cached(
            "SELECT body_hash, claimed_at, instance, number, status, body, expires_at FROM answers
             WHERE scope = ?1 AND key = ?2",
        )?
        .query_one(params![key.scope, key.key], read_row)
        .optional()
}

fn claim(
    connection: &Connection,
    key: &AnswerKey,
    body_hash: &[u8; 32],
    claimant: &Claimant,
    (now, stale_before): (Timestamp, Timestamp),
) -> StepResult<AnswerClaim> {
    if let Some(found) = find(connection, key)? {
        let counts = match &found.answer {
            Some((_, expires_at)) => *expires_at > now,
            // One process at a time: whoever else has claimed it is gone.
            None => {
                found.claimant.instance == claimant.instance && found.claimed_at >= stale_before
            }
        };
        if counts {
            return Ok(match found.answer {
                _ if found.body_hash != body_hash => AnswerClaim::OtherBody,
                Some((answer, _)) => AnswerClaim::Answered(answer),
                None => AnswerClaim::InFlight,
            });
        }
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO answers (scope, key, body_hash, claimed_at, instance, number)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            key.scope,
            key.key,
            body_hash,
            Millis(now),
            claimant.instance,
            claimant.number
        ])?;
    Ok(AnswerClaim::New)
}

fn keep(
    connection: &Connection,
    key: &AnswerKey,
    claimant: &Claimant,
    answer: &Answer,
    expires_at: Timestamp,
) -> StepResult<()> {
    let found = find(connection, key)?.filter(|found| found.claimant == *claimant);
    let found = found.ok_or(StoreError::NotFound("claim"))?;
    if let Some((kept, _)) = found.answer {
        // An answer that was sent stays as it is. Keeping the same one again is a retry.
        return if kept == *answer { Ok(()) } else { Err(StoreError::NotFound("claim").into()) };
    }
    connection
        .prepare_cached(
            "UPDATE answers SET status = ?3, body = ?4, expires_at = ?5
             WHERE scope = ?1 AND key = ?2",
        )?
        .execute(params![key.scope, key.key, answer.status, answer.body, Millis(expires_at)])?;
    Ok(())
}

#[async_trait]
impl AnswerStore for SqliteStore {
    async fn claim_answer(
        &self,
        key: &AnswerKey,
        body_hash: &[u8; 32],
        claimant: &Claimant,
        now: Timestamp,
        stale_before: Timestamp,
    ) -> Result<AnswerClaim> {
        let (key, body_hash, claimant) = (key.clone(), *body_hash, claimant.clone());
        let times = (now, stale_before);
        self.writer
            .run(move |connection| claim(connection, &key, &body_hash, &claimant, times))
            .await
    }

    async fn keep_answer(
        &self,
        key: &AnswerKey,
        claimant: &Claimant,
        answer: &Answer,
        expires_at: Timestamp,
    ) -> Result<()> {
        let (key, claimant, answer) = (key.clone(), claimant.clone(), answer.clone());
        self.writer
            .run(move |connection| keep(connection, &key, &claimant, &answer, expires_at))
            .await
    }

    async fn release_answer(&self, key: &AnswerKey, claimant: &Claimant) -> Result<()> {
        let (key, claimant) = (key.clone(), claimant.clone());
        self.writer
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "DELETE FROM answers
                         WHERE scope = ?1 AND key = ?2 AND instance = ?3 AND number = ?4
                           AND status IS NULL",
                    )?
                    .execute(params![key.scope, key.key, claimant.instance, claimant.number])?;
                Ok(())
            })
            .await
    }

    async fn purge_answers(&self, now: Timestamp, limit: u32) -> Result<u64> {
        self.writer
            .run(move |connection| {
                let purged = connection
                    .prepare_cached(
                        "DELETE FROM answers WHERE rowid IN (
                             SELECT rowid FROM answers WHERE expires_at <= ?1
                             UNION ALL
                             SELECT rowid FROM answers
                             WHERE expires_at IS NULL AND claimed_at <= ?1 - 86400000
                             LIMIT ?2)",
                    )?
                    .execute(params![Millis(now), limit])?;
                Ok(purged as u64)
            })
            .await
    }
}
