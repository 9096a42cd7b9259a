//! What happens to chunks, other than being finished.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use jiff::Timestamp;
use storage::{BatchId, Chunk, ClaimTerms, Result, Verdict, WorkerName};
use tokio_postgres::types::Type;

use super::rows::read_chunk;
use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

const CLAIM: &str = "
    SELECT outcome, its_type AS type_id, its_position AS position, (claimed).batch_id,
           (claimed).number, (claimed).start, (claimed).stop, (claimed).attempts, (claimed).token
    FROM claim_chunk($1, $2, $3, $4, $5, $6)";

const IS_HELD: &str = "
    SELECT FROM chunks WHERE worker = $1 AND worker_number = $2 AND state = 'running' LIMIT 1";

const WORKERS: &str = "
    SELECT DISTINCT worker FROM chunks WHERE state = 'running' AND worker IS NOT NULL";

const ALIVE: &str = "
    SELECT name FROM instances
    WHERE name = ANY ($1) AND node IS NOT NULL AND expires_at > clock_timestamp()";

/// Which shards have given a chunk to this instance, the last one at the end.
#[derive(Default)]
pub(crate) struct ShardTurns(Mutex<Vec<usize>>);

impl ShardTurns {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many shards, the one that was served least recently first.
    fn order(&self, shards: usize) -> Vec<usize> {
        let served = self.lock();
        let never = (0..shards).filter(|shard| !served.contains(shard));
        never.chain(served.iter().copied()).collect()
    }

    fn note(&self, shard: usize) {
        let mut served = self.lock();
        served.retain(|other| *other != shard);
        served.push(shard);
    }
}

impl PostgresStore {
    /// A tenant's turn is known on its shard only, so unless a tenant is named, shards take turns like
    /// tenants do. One that does not answer does not keep the others from their turn.
    pub(super) async fn claim(
        &self,
        worker: &WorkerName,
        tenant: Option<&str>,
        terms: ClaimTerms,
    ) -> Result<Option<Chunk>> {
        let mut order: Vec<usize> = match tenant {
            Some(tenant) => self.shard_of_tenant(tenant).await?.into_iter().collect(),
            None => self.turns.order(self.databases.len()),
        };
        if self.databases.len() > 1 {
            let held = self.shards_with_chunks_of(worker).await;
            order.retain(|shard| !held.contains(shard));
            order = held.into_iter().chain(order).collect();
        }
        let mut failed = Ok(None);
        for place in order {
            let shard = &self.databases[place];
            match claim_on(shard, worker, tenant, terms).await {
                Ok(None) => {}
                Ok(Some(chunk)) => {
                    self.turns.note(place);
                    self.make_tables_ahead(shard, chunk.type_id, &chunk.serials).await;
                    return Ok(Some(chunk));
                }
                Err(error) => {
                    self.turns.note(place);
                    failed = Err(error);
                }
            }
        }
        failed
    }

    /// The shards that have a chunk whose claim never reached this worker. One that does not answer at
    /// once is not waited for: the others have work to do, and it is asked again with the next claim.
    async fn shards_with_chunks_of(&self, worker: &WorkerName) -> Vec<usize> {
        let number = i64::from(worker.number);
        let params: [Param<'_>; 2] = [(&worker.instance, Type::TEXT), (&number, Type::INT8)];
        let answers = join_all(self.databases.iter().map(|shard| {
            tokio::time::timeout(
                shard.limits.aside(),
                shard.query(Repeat::Always, IS_HELD, &params),
            )
        }));
        let found = answers.await.into_iter().enumerate().filter_map(|(place, answer)| {
            answer.is_ok_and(|rows| rows.is_ok_and(|rows| !rows.is_empty())).then_some(place)
        });
        found.collect()
    }

    /// Workers first, leases afterwards: who has joined in between and claimed is not among these.
    pub(super) async fn release_lost(&self, instance: &str) -> Result<u64> {
        let shards = self.databases.iter().map(|shard| self.release_lost_on(shard, instance));
        // All of them, whatever becomes of the others.
        join_all(shards).await.into_iter().sum::<Result<u64>>().map_err(error::heard_of)
    }

    async fn release_lost_on(&self, shard: &Database, instance: &str) -> Result<u64> {
        let rows = shard.query(Repeat::Always, WORKERS, &[]).await?;
        let mut workers: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        workers.retain(|worker| worker != instance);
        if workers.is_empty() {
            return Ok(0);
        }
        let params: [Param<'_>; 1] = [(&workers, Type::TEXT_ARRAY)];
        let alive = self.catalogue().query(Repeat::Always, ALIVE, &params).await?;
        workers.retain(|worker| alive.iter().all(|row| row.get::<_, &str>(0) != worker));
        let params: [Param<'_>; 1] = [(&workers, Type::TEXT_ARRAY)];
        let rows = shard.query(Repeat::Always, "SELECT release_chunks($1)", &params).await?;
        rows.iter().map(|row| read_serial(row.get(0))).sum()
    }
}

/// A claim whose answer got lost is repeated: the chunk is on record as this worker's, and comes first.
async fn claim_on(
    shard: &Database,
    worker: &WorkerName,
    tenant: Option<&str>,
    terms: ClaimTerms,
) -> Result<Option<Chunk>> {
    let silent_since = terms.now.checked_sub(terms.silent).unwrap_or(Timestamp::MIN);
    let (now, silent_since) = (Time::new(terms.now), Time::new(silent_since));
    let attempts_max = i32::try_from(terms.attempts_max).unwrap_or(i32::MAX);
    let number = i64::from(worker.number);
    let params: [Param<'_>; 6] = [
        (&worker.instance, Type::TEXT),
        (&number, Type::INT8),
        (&tenant, Type::TEXT),
        (&now, Type::TIMESTAMPTZ),
        (&silent_since, Type::TIMESTAMPTZ),
        (&attempts_max, Type::INT4),
    ];
    loop {
        let rows = shard.query(Repeat::Always, CLAIM, &params).await?;
        let row = rows.first().ok_or_else(|| corrupt("a claim came to nothing"))?;
        match row.get("outcome") {
            "claimed" => return read_chunk(row).map(Some),
            // A chunk became a dead letter. There may be another one.
            "buried" => {}
            _ => return Ok(None),
        }
    }
}

/// Repeated without knowing: the second time finds that the claim has ended, and changes nothing.
pub(super) async fn fail(
    shard: &Database,
    chunk: &Chunk,
    error: &str,
    retry_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool> {
    let rows = shard
        .query(
            Repeat::Always,
            "SELECT fail_chunk($1, $2, $3, $4, $5, $6)",
            &[
                (&chunk.batch.0, Type::INT8),
                (&write_count(chunk.number), Type::INT8),
                (&chunk.token, Type::INT8),
                (&error, Type::TEXT),
                (&retry_at.map(Time::new), Type::TIMESTAMPTZ),
                (&Time::new(now), Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Not repeated without knowing: whoever decides wants to know what counted.
pub(super) async fn settle(
    shard: &Database,
    chunks: &[(BatchId, u64)],
    verdict: Verdict,
    now: Timestamp,
) -> Result<u64> {
    let batches: Vec<i64> = chunks.iter().map(|(batch, _)| batch.0).collect();
    let numbers: Vec<i64> = chunks.iter().map(|(_, number)| write_count(*number)).collect();
    let rows = shard
        .query(
            Repeat::Undone,
            "SELECT settle_chunks($1, $2, $3, $4)",
            &[
                (&batches, Type::INT8_ARRAY),
                (&numbers, Type::INT8_ARRAY),
                (&(verdict == Verdict::Abandon), Type::BOOL),
                (&Time::new(now), Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    rows.first().map_or(Ok(0), |row| read_serial(row.get(0)))
}
