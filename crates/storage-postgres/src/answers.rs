//! Answers to requests with an idempotency key.

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{Answer, AnswerClaim, AnswerKey, AnswerStore, Claimant, Result, StoreError};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::time::Time;

// A claim stands while its instance is alive, unless it is stale. The claimant's own is a try
// whose answer got lost. What is there is read as it was before.
const CLAIM: &str = "
    WITH claimed AS (
        INSERT INTO answers AS old (scope, key, body_hash, instance, number, claimed_at)
        VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT (scope, key) DO UPDATE
            SET body_hash = excluded.body_hash, instance = excluded.instance,
                number = excluded.number, claimed_at = excluded.claimed_at,
                status = NULL, body = NULL, expires_at = NULL
            WHERE CASE
                WHEN old.status IS NOT NULL THEN old.expires_at <= $6
                WHEN old.instance = $4 THEN old.number = $5 OR old.claimed_at < $7
                ELSE old.claimed_at < $7 OR NOT EXISTS (
                    SELECT FROM instances
                    WHERE name = old.instance AND expires_at > clock_timestamp())
            END
        RETURNING scope
    )
    SELECT EXISTS (SELECT FROM claimed) AS new, answers.body_hash, answers.status, answers.body
    FROM (SELECT) AS once LEFT JOIN answers ON answers.scope = $1 AND answers.key = $2";

const KEEP: &str = "
    UPDATE answers SET status = $5, body = $6, expires_at = $7
    WHERE scope = $1 AND key = $2 AND instance = $3 AND number = $4 AND status IS NULL
    RETURNING scope";

const RELEASE: &str = "
    DELETE FROM answers
    WHERE scope = $1 AND key = $2 AND instance = $3 AND number = $4 AND status IS NULL";

const PURGE: &str = "
    WITH expired AS (
        SELECT scope, key FROM answers WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), abandoned AS (
        SELECT scope, key FROM answers WHERE status IS NULL AND claimed_at <= $1 - interval '1 day'
        ORDER BY claimed_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), old AS (
        SELECT * FROM expired UNION ALL SELECT * FROM abandoned LIMIT $2
    )
    DELETE FROM answers USING old
    WHERE answers.scope = old.scope AND answers.key = old.key RETURNING 1";

fn read_status(status: i16) -> Result<u16> {
    u16::try_from(status).map_err(|_| corrupt("an answer has a negative status"))
}

impl PostgresStore {
    /// Whether this very answer was kept for this claim before.
    async fn is_kept(&self, key: &AnswerKey, claimant: &Claimant, answer: &Answer) -> Result<bool> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT status, body FROM answers
                 WHERE scope = $1 AND key = $2 AND instance = $3 AND number = $4
                   AND status IS NOT NULL",
                &[
                    (&key.scope, Type::TEXT),
                    (&key.key, Type::TEXT),
                    (&claimant.instance, Type::TEXT),
                    (&claimant.number, Type::INT8),
                ],
            )
            .await?;
        let Some(row) = rows.first() else { return Ok(false) };
        Ok(read_status(row.get("status"))? == answer.status
            && row.get::<_, &[u8]>("body") == answer.body)
    }
}

#[async_trait]
impl AnswerStore for PostgresStore {
    async fn claim_answer(
        &self,
        key: &AnswerKey,
        body_hash: &[u8; 32],
        claimant: &Claimant,
        now: Timestamp,
        stale_before: Timestamp,
    ) -> Result<AnswerClaim> {
        loop {
            let rows = self
                .catalogue()
                .query(
                    Repeat::Always,
                    CLAIM,
                    &[
                        (&key.scope, Type::TEXT),
                        (&key.key, Type::TEXT),
                        (&body_hash.as_slice(), Type::BYTEA),
                        (&claimant.instance, Type::TEXT),
                        (&claimant.number, Type::INT8),
                        (&Time::new(now), Type::TIMESTAMPTZ),
                        (&Time::new(stale_before), Type::TIMESTAMPTZ),
                    ],
                )
                .await?;
            let row = rows.first().ok_or_else(|| corrupt("a claim came to nothing"))?;
            if row.get("new") {
                return Ok(AnswerClaim::New);
            }
            let Some(found) = row.get::<_, Option<&[u8]>>("body_hash") else {
                // Somebody else claimed it after this statement had begun, so that it could not
                // see what is there. The next one does.
                continue;
            };
            if found != body_hash {
                return Ok(AnswerClaim::OtherBody);
            }
            return Ok(match row.get::<_, Option<i16>>("status") {
                None => AnswerClaim::InFlight,
                Some(status) => AnswerClaim::Answered(Answer {
                    status: read_status(status)?,
                    body: row.get("body"),
                }),
            });
        }
    }

    async fn keep_answer(
        &self,
        key: &AnswerKey,
        claimant: &Claimant,
        answer: &Answer,
        expires_at: Timestamp,
    ) -> Result<()> {
        let status = i16::try_from(answer.status)
            .map_err(|_| corrupt(format!("{} is no HTTP status", answer.status)))?;
        let kept = self
            .catalogue()
            .query(
                Repeat::Always,
                KEEP,
                &[
                    (&key.scope, Type::TEXT),
                    (&key.key, Type::TEXT),
                    (&claimant.instance, Type::TEXT),
                    (&claimant.number, Type::INT8),
                    (&status, Type::INT2),
                    (&answer.body, Type::BYTEA),
                    (&Time::new(expires_at), Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        // An answer that was sent stays as it is. Keeping the same one again is a retry.
        if kept.is_empty() && !self.is_kept(key, claimant, answer).await? {
            return Err(StoreError::NotFound("claim"));
        }
        Ok(())
    }

    async fn release_answer(&self, key: &AnswerKey, claimant: &Claimant) -> Result<()> {
        self.catalogue()
            .query(
                Repeat::Always,
                RELEASE,
                &[
                    (&key.scope, Type::TEXT),
                    (&key.key, Type::TEXT),
                    (&claimant.instance, Type::TEXT),
                    (&claimant.number, Type::INT8),
                ],
            )
            .await?;
        Ok(())
    }

    async fn purge_answers(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                PURGE,
                &[(&Time::new(now), Type::TIMESTAMPTZ), (&i64::from(limit), Type::INT8)],
            )
            .await?;
        Ok(rows.len() as u64)
    }
}
