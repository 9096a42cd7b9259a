//! What follows an attempt, or the decision of a person, or old age.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use storage::{Attempt, DeliveryId, Next, Outcome, ReceiverId, Result, Verdict};
use tokio_postgres::types::Type;

use super::consignments;
use super::rows::{write_limit, write_micros, write_small};
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

// The outcomes come in order of numbers, and a lateral join keeps to it, so two groups never lock the
// same rows in different orders. The token grows once more, so that an outcome counts only once. The
// numbers of documents are gaps, or no gaps any more, in the same step. Rows are found by arrays of
// numbers: a join could read all of a table that is full of rows which were deleted a moment ago.
const SETTLE: &str = "
    WITH held AS MATERIALIZED (
        SELECT outcome.*
        FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::integer[],
                    $6::timestamptz[], $7::bigint[], $8::integer[], $9::text[])
            AS outcome (number, token, state, retry_at, attempt, at, us, status, error)
        CROSS JOIN LATERAL (
            SELECT FROM pending_deliveries AS pending
            WHERE pending.number = outcome.number AND pending.token = outcome.token
            FOR UPDATE) AS locked
    ), retried AS (
        UPDATE pending_deliveries AS pending SET due_at = held.retry_at, token = held.token + 1,
            failures = pending.failures + 1, last_attempt = held.attempt, last_at = held.at,
            last_us = held.us, last_status = held.status, last_error = held.error
        FROM held WHERE pending.number = held.number AND held.state = 'pending'
            AND pending.number = ANY (ARRAY(SELECT number FROM held WHERE state = 'pending'))
    ), put_back AS (
        UPDATE pending_deliveries AS pending SET due_at = $10, token = held.token + 1,
            attempts = greatest(pending.attempts - 1, 0)
        FROM held WHERE pending.number = held.number AND held.state = 'untried'
            AND pending.number = ANY (ARRAY(SELECT number FROM held WHERE state = 'untried'))
    ), ended AS (
        DELETE FROM pending_deliveries
        WHERE number = ANY (ARRAY(SELECT number FROM held WHERE state IN ('delivered', 'dead')))
        RETURNING number, receiver, type_id, has_gap, attempts
    ), settling AS (
        SELECT ended.receiver, ended.type_id, ended.has_gap, ended.attempts, held.*
        FROM ended JOIN held ON held.number = ended.number
    ), settled AS (
        INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts,
                                        token, last_attempt, last_at, last_us, last_status,
                                        last_error)
        SELECT number, receiver, type_id, state, $10, attempts, token + 1, attempt, at, us, status,
               error
        FROM settling
    ), logged AS (
        INSERT INTO delivery_attempts (delivery, attempt, at, us, status, error)
        SELECT number, attempt, at, us, status, error FROM held
        WHERE error IS NOT NULL AND state <> 'untried'
    ), gone_and_arrived AS MATERIALIZED (
        SELECT settle_gaps(
            array_agg(number) FILTER (WHERE state = 'dead' AND type_id <> 0),
            array_agg(number) FILTER (WHERE state = 'delivered' AND has_gap), $10)
        FROM settling
    )
    SELECT number, token
    FROM (SELECT count(*) FROM gone_and_arrived) AS gaps CROSS JOIN held";

// What has arrived by itself and was never given up, all by the same token, as is usual. What is not in the
// answer was not changed, and the statement above finds out why.
const SETTLE_ARRIVED: &str = "
    WITH ended AS (
        DELETE FROM pending_deliveries
        WHERE number = ANY ($1) AND token = $2 AND NOT has_gap
        RETURNING number, receiver, type_id, attempts
    )
    INSERT INTO settled_deliveries (number, receiver, type_id, state, settled_at, attempts, token,
                                    last_attempt, last_at, last_us, last_status)
    SELECT ended.number, ended.receiver, ended.type_id, 'delivered', $7, ended.attempts, $2 + 1,
           outcome.attempt, outcome.at, outcome.us, outcome.status
    FROM ended JOIN unnest($1::bigint[], $3::integer[], $4::timestamptz[], $5::bigint[],
                           $6::integer[]) AS outcome (number, attempt, at, us, status)
        ON outcome.number = ended.number
    RETURNING number";

// As an array, the numbers are looked up one by one in any plan.
const FORGET: &str = "
    WITH old AS MATERIALIZED (
        SELECT number FROM settled_deliveries
        WHERE state IN ('delivered', 'abandoned') AND type_id = 0 AND settled_at < $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ), attempts AS (
        DELETE FROM delivery_attempts WHERE delivery = ANY (ARRAY(SELECT number FROM old))
    ), contents AS (
        DELETE FROM deliveries WHERE number = ANY (ARRAY(SELECT number FROM old))
    ), settled AS (
        DELETE FROM settled_deliveries WHERE number = ANY (ARRAY(SELECT number FROM old))
    )
    SELECT count(*) FROM old";

/// Most outcomes of a statement, so that it is over in time however many have failed together.
const SETTLED_MAX: usize = 1000;

/// The state of what has arrived.
const DELIVERED: &str = "delivered";

/// Outcomes of one shard, column by column.
#[derive(Default)]
struct Columns<'a> {
    numbers: Vec<i64>,
    tokens: Vec<i64>,
    states: Vec<&'static str>,
    retries: Vec<Option<Time>>,
    attempts: Vec<i32>,
    began: Vec<Time>,
    micros: Vec<i64>,
    statuses: Vec<Option<i32>>,
    errors: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn add(&mut self, outcome: &'a Outcome) {
        let (state, retry_at) = match outcome.next {
            Next::Delivered => (DELIVERED, None),
            Next::Retry(at) => ("pending", Some(Time::new(at))),
            Next::Dead => ("dead", None),
            Next::Untried => ("untried", None),
        };
        let attempt = &outcome.attempt;
        self.numbers.push(outcome.delivery.number());
        self.tokens.push(outcome.token);
        self.states.push(state);
        self.retries.push(retry_at);
        self.attempts.push(write_small(attempt.number));
        self.began.push(Time::new(attempt.at));
        self.micros.push(write_micros(attempt.duration));
        self.statuses.push(attempt.status.map(i32::from));
        self.errors.push(attempt.error.as_deref());
    }

    /// Settles them. Returns those that counted, with their tokens.
    ///
    /// Repeated without knowing: the second time finds that the claims have ended, and changes nothing.
    async fn settle(self, shard: &Database, now: Time) -> Result<Vec<(i64, i64)>> {
        let mut settled = self.settle_arrived(shard, now).await?;
        if settled.len() < self.numbers.len() {
            // Those that are settled have another token now, and do not count again.
            settled.extend(self.settle_any(shard, now).await?);
        }
        Ok(settled)
    }

    /// Settles them if all have arrived, by one token. Otherwise nobody is settled.
    async fn settle_arrived(&self, shard: &Database, now: Time) -> Result<Vec<(i64, i64)>> {
        let token = self.tokens.first().copied().unwrap_or_default();
        let has_arrived =
            |(state, its_token): (&&str, &i64)| *state == DELIVERED && *its_token == token;
        if !self.states.iter().zip(&self.tokens).all(has_arrived) {
            return Ok(Vec::new());
        }
        let params: [Param<'_>; 7] = [
            (&self.numbers, Type::INT8_ARRAY),
            (&token, Type::INT8),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.began, Type::TIMESTAMPTZ_ARRAY),
            (&self.micros, Type::INT8_ARRAY),
            (&self.statuses, Type::INT4_ARRAY),
            (&now, Type::TIMESTAMPTZ),
        ];
        let rows = shard.query(Repeat::Always, SETTLE_ARRIVED, &params).await?;
        Ok(rows.iter().map(|row| (row.get(0), token)).collect())
    }

    async fn settle_any(&self, shard: &Database, now: Time) -> Result<Vec<(i64, i64)>> {
        let params: [Param<'_>; 10] = [
            (&self.numbers, Type::INT8_ARRAY),
            (&self.tokens, Type::INT8_ARRAY),
            (&self.states, Type::TEXT_ARRAY),
            (&self.retries, Type::TIMESTAMPTZ_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.began, Type::TIMESTAMPTZ_ARRAY),
            (&self.micros, Type::INT8_ARRAY),
            (&self.statuses, Type::INT4_ARRAY),
            (&self.errors, Type::TEXT_ARRAY),
            (&now, Type::TIMESTAMPTZ),
        ];
        let rows = shard.query(Repeat::Always, SETTLE, &params).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

/// Settles outcomes of one shard, in order of numbers. Returns those that counted, with their tokens.
async fn settle_on(
    shard: &Database,
    mut outcomes: Vec<&Outcome>,
    now: Time,
) -> Result<Vec<(i64, i64)>> {
    let arrived = outcomes.iter().copied().filter(|outcome| consignments::has_arrived(outcome));
    let arrived: Vec<&Outcome> = arrived.collect();
    let arrived: BTreeSet<i64> =
        consignments::settle(shard, &arrived, now).await?.into_iter().collect();
    let mut settled: Vec<(i64, i64)> =
        arrived.iter().map(|number| (*number, consignments::TOKEN)).collect();
    outcomes.retain(|outcome| {
        outcome.token != consignments::TOKEN || !arrived.contains(&outcome.delivery.number())
    });
    if outcomes.is_empty() {
        return Ok(settled);
    }
    let together = outcomes.iter().filter(|outcome| outcome.token == consignments::TOKEN);
    let together: Vec<i64> = together.map(|outcome| outcome.delivery.number()).collect();
    if !together.is_empty() {
        consignments::break_up(shard, &together).await?;
    }
    for outcomes in outcomes.chunks(SETTLED_MAX) {
        let mut columns = Columns::default();
        for outcome in outcomes {
            columns.add(outcome);
        }
        settled.extend(columns.settle(shard, now).await?);
    }
    Ok(settled)
}

impl PostgresStore {
    /// All shards are told, whatever becomes of the others. After an error the caller may tell all of
    /// them again: what has counted does not count twice.
    pub(super) async fn settle(&self, outcomes: &[Outcome], now: Time) -> Result<Vec<bool>> {
        let mut in_order: Vec<(DeliveryId, i64, usize)> = outcomes
            .iter()
            .enumerate()
            .map(|(place, outcome)| (outcome.delivery, outcome.token, place))
            .collect();
        in_order.sort_unstable();
        // Of two outcomes of the same claim the first one counts.
        in_order.dedup_by_key(|(delivery, token, _)| (*delivery, *token));
        let mut shards: BTreeMap<u16, Vec<&Outcome>> = BTreeMap::new();
        for (delivery, _, place) in &in_order {
            shards.entry(delivery.shard()).or_default().push(&outcomes[*place]);
        }
        let settled = shards.into_iter().filter_map(|(place, outcomes)| {
            let shard = self.databases.get(usize::from(place))?;
            Some(async move {
                let settled = settle_on(shard, outcomes, now).await?;
                let settled = settled.into_iter();
                Ok(settled.map(|(number, token)| (DeliveryId::new(number, place), token)).collect())
            })
        });
        let settled = join_all(settled).await.into_iter();
        let settled = settled.collect::<Result<Vec<Vec<(DeliveryId, i64)>>>>();
        let settled = settled.map_err(error::heard_of)?;
        let settled: BTreeSet<(DeliveryId, i64)> = settled.into_iter().flatten().collect();
        let mut counted = vec![false; outcomes.len()];
        for (delivery, token, place) in in_order {
            counted[place] = settled.contains(&(delivery, token));
        }
        Ok(counted)
    }
}

/// Not repeated without knowing: whoever decides wants to know whether it counted.
pub(super) async fn decide(
    shard: &Database,
    id: DeliveryId,
    verdict: Verdict,
    now: Time,
) -> Result<bool> {
    let sql = match verdict {
        Verdict::Retry => "SELECT retry_delivery($1, $2)",
        Verdict::Abandon => "SELECT abandon_delivery($1, $2)",
    };
    let params: [Param<'_>; 2] = [(&id.number(), Type::INT8), (&now, Type::TIMESTAMPTZ)];
    let rows = shard.query(Repeat::Undone, sql, &params).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Repeated without knowing: the second time it is no news.
pub(super) async fn note_arrival(
    shard: &Database,
    id: DeliveryId,
    attempt: &Attempt,
    now: Time,
) -> Result<bool> {
    let params: [Param<'_>; 6] = [
        (&id.number(), Type::INT8),
        (&write_small(attempt.number), Type::INT4),
        (&Time::new(attempt.at), Type::TIMESTAMPTZ),
        (&write_micros(attempt.duration), Type::INT8),
        (&attempt.status.map(i32::from), Type::INT4),
        (&now, Type::TIMESTAMPTZ),
    ];
    let sql = "SELECT note_arrival($1, $2, $3, $4, $5, $6)";
    let rows = shard.query(Repeat::Always, sql, &params).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Gives up some of what is pending for a receiver. None if nothing is.
///
/// Repeated without knowing: at worst some that were given up are not counted.
pub(super) async fn abandon_some(
    shard: &Database,
    tenant: &str,
    receiver: ReceiverId,
    most: i64,
    now: Time,
) -> Result<Option<u64>> {
    let sql = "SELECT looked_at, abandoned FROM abandon_some($1, $2, $3, $4)";
    let params: [Param<'_>; 4] = [
        (&tenant, Type::TEXT),
        (&receiver.0, Type::INT8),
        (&most, Type::INT8),
        (&now, Type::TIMESTAMPTZ),
    ];
    let rows = shard.query(Repeat::Always, sql, &params).await?;
    let row = rows.first().ok_or_else(|| corrupt("giving up came to nothing"))?;
    match row.get::<_, i64>("looked_at") {
        0 => Ok(None),
        _ => read_serial(row.get("abandoned")).map(Some),
    }
}

/// Repeated without knowing: at worst some that were forgotten are not counted.
pub(super) async fn forget(shard: &Database, before: Time, limit: usize) -> Result<u64> {
    let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&write_limit(limit), Type::INT8)];
    let rows = shard.query(Repeat::Always, FORGET, &params).await?;
    rows.iter().map(|row| read_serial(row.get(0))).sum()
}
