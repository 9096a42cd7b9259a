//! What instances that are gone, and pools that were given up, have left behind.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use jiff::Timestamp;
use storage::{Gap, GapReason, Losses, Result, pool_holder};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::gaps::{COLUMNS, read_gap};
use crate::session::{Keep, Param, Session};
use crate::time::Time;

// One step in the index for each holder, however much it holds.
const HOLDERS: &str = "
    WITH RECURSIVE holders (holder) AS (
        SELECT min(holder) FROM draws
        UNION ALL
        SELECT (SELECT min(later.holder) FROM draws AS later WHERE later.holder > holders.holder)
        FROM holders WHERE holders.holder IS NOT NULL
    )
    SELECT holder FROM holders WHERE holder IS NOT NULL";

// The rows stay locked until what the instances held is closed. Who is being renewed just now is
// skipped, and so is who somebody else is already taking care of.
const EXPIRED: &str = "
    SELECT name, seen_at FROM instances WHERE expires_at <= clock_timestamp() AND name <> $1
    ORDER BY name FOR UPDATE SKIP LOCKED";

const KNOWN: &str = "SELECT name FROM instances WHERE name = ANY ($1)";

const EPOCHS: &str = "SELECT epoch, ended_at, ended_at < $1 AS over FROM pool_epochs";

/// Somebody who has lost what they held.
struct Lost {
    holder: String,
    reason: GapReason,
    /// When, if that is known: when an instance was last seen, or an epoch ended.
    at: Option<Time>,
}

fn close_sql() -> String {
    format!("SELECT {COLUMNS} FROM close_holder($1, $2, $3, $4) ORDER BY id")
}

async fn query(session: &mut Session, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>> {
    let rows = session.query(Keep::Never, sql, params).await;
    rows.map_err(|error| error::from_database(&error))
}

/// Makes gaps of all that some holders have on one shard.
async fn close_on(shard: &Database, lost: &[Lost], detected: Time) -> Result<Vec<Gap>> {
    let mut gaps = Vec::new();
    for Lost { holder, reason, at } in lost {
        let rows = shard
            .query(
                Repeat::Undone,
                &close_sql(),
                &[
                    (holder, Type::TEXT),
                    (&reason.name(), Type::TEXT),
                    (at, Type::TIMESTAMPTZ),
                    (&detected, Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        for row in &rows {
            gaps.push(read_gap(row)?);
        }
    }
    Ok(gaps)
}

impl PostgresStore {
    pub(crate) async fn close_lost(
        &self,
        instance: &str,
        grace: Duration,
        now: Timestamp,
    ) -> Result<Losses> {
        let catalogue = self.catalogue();
        catalogue.within(catalogue.limits.work, self.close_lost_in_time(instance, grace, now)).await
    }

    async fn close_lost_in_time(
        &self,
        instance: &str,
        grace: Duration,
        now: Timestamp,
    ) -> Result<Losses> {
        // Holders first, instances afterwards: who has joined in between may have drawn, too, but
        // is not among these.
        let holders = try_join_all(
            self.databases.iter().map(|shard| shard.query(Repeat::Always, HOLDERS, &[])),
        )
        .await?;
        let mut holders: Vec<String> = holders.iter().flatten().map(|row| row.get(0)).collect();
        holders.sort();
        holders.dedup();
        holders.retain(|holder| holder != instance);

        let failed = |error: tokio_postgres::Error| error::from_database(&error);
        let catalogue = self.catalogue();
        let limit_ms = catalogue.limits.work.as_millis();
        let mut session = catalogue.session().await?;
        session.begin(limit_ms, limit_ms).await.map_err(failed)?;
        let expired = query(&mut session, EXPIRED, &[(&instance, Type::TEXT)]).await?;
        let seen: HashMap<String, Option<Time>> =
            expired.iter().map(|row| (row.get("name"), row.get("seen_at"))).collect();
        let known = query(&mut session, KNOWN, &[(&holders, Type::TEXT_ARRAY)]).await?;
        let known: Vec<String> = known.iter().map(|row| row.get("name")).collect();
        // An instance that is known and not ours to close is alive, or somebody else closes it.
        holders.retain(|holder| seen.contains_key(holder) || !known.contains(holder));

        let lost = sort_out(&mut session, holders, &seen, grace, now).await?;
        let gone: Vec<String> = expired.iter().map(|row| row.get("name")).collect();
        let detected = Time::new(now);
        let gaps =
            try_join_all(self.databases.iter().map(|shard| close_on(shard, &lost, detected)))
                .await
                .map_err(error::heard_of)?;
        if gone.is_empty() {
            session.roll_back().await.map_err(failed)?;
        } else {
            session
                .query(
                    Keep::Never,
                    "DELETE FROM instances WHERE name = ANY ($1)",
                    &[(&gone, Type::TEXT_ARRAY)],
                )
                .await
                .map_err(failed)?;
            session.commit().await.map_err(failed)?;
        }
        let mut gaps: Vec<Gap> = gaps.into_iter().flatten().collect();
        gaps.sort_by_key(|gap| (gap.span.type_id, gap.id));
        Ok(Losses { gone, gaps })
    }
}

/// Which holders have lost what they hold, and why. A pool has when its epoch is over for long
/// enough; whoever else is in the list has.
async fn sort_out(
    session: &mut Session,
    holders: Vec<String>,
    seen: &HashMap<String, Option<Time>>,
    grace: Duration,
    now: Timestamp,
) -> Result<Vec<Lost>> {
    let ended_before = now
        .checked_sub(grace)
        .map_err(|_| corrupt("the grace for pools reaches back before all time"))?;
    let ended_before = Time::new(ended_before);
    let rows = query(session, EPOCHS, &[(&ended_before, Type::TIMESTAMPTZ)]).await?;
    let mut lost = Vec::new();
    for holder in holders {
        let epoch = rows.iter().find(|row| {
            u64::try_from(row.get::<_, i64>("epoch")).is_ok_and(|n| pool_holder(n) == holder)
        });
        match epoch {
            None => {
                let at = seen.get(&holder).copied().flatten();
                lost.push(Lost { holder, reason: GapReason::Crash, at });
            }
            Some(row) if row.get::<_, Option<bool>>("over") == Some(true) => {
                let at = row.get("ended_at");
                lost.push(Lost { holder, reason: GapReason::PoolDiscarded, at });
            }
            Some(_) => {}
        }
    }
    Ok(lost)
}
