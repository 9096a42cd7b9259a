//! Read replicas: how far they are behind, and reading from those that are not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{PgLsn, Type};

use crate::address::Address;
use crate::database::{Database, Repeat};
use crate::error::OpenError;
use crate::session::{Keep, Param};
use crate::{PostgresSettings, PostgresStore};

const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// One that is further behind than this is not read from.
const LAG_SECONDS_MAX: f64 = 1.0;

/// As the primary sees its standbys. What it may not show us is left out.
const LAG_AT_PRIMARY: &str = "
    SELECT application_name || coalesce('@' || host(client_addr), ''),
           extract(epoch FROM coalesce(replay_lag, interval '0'))::float8
    FROM pg_stat_replication WHERE state IS NOT NULL";

/// As a replica sees itself. One that has applied all it has received is not behind, however long
/// nothing was written. It does not know of what it has not received, so it is asked for what the
/// primary had before.
const LAG_AT_REPLICA: &str = "
    SELECT CASE
        WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
        ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0)
    END::float8,
    coalesce(NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= $1, false)";

/// How far the log of a primary is written.
const END_OF_LOG: &str = "SELECT pg_current_wal_lsn()";

/// A copy of a shard that can be read.
pub(crate) struct Replica {
    pub(crate) shard: usize,
    database: Database,
    /// Whether it answered, and was not far behind, when it was asked last.
    usable: AtomicBool,
    reads: AtomicU64,
}

impl Replica {
    pub(crate) fn new(
        shard: usize,
        address: &Address,
        settings: &PostgresSettings,
    ) -> Result<Self, OpenError> {
        let database = Database::new(address, settings)?;
        Ok(Self { shard, database, usable: AtomicBool::default(), reads: AtomicU64::default() })
    }

    /// Reads one row. None if it is not there, or not there yet, or the replica is of no use just now:
    /// the primary knows.
    pub(crate) async fn read_one(
        &self,
        keep: Keep,
        sql: &str,
        params: &[Param<'_>],
    ) -> Option<Row> {
        if !self.usable.load(Ordering::Relaxed) {
            return None;
        }
        let database = &self.database;
        let read = database.query_as(keep, Repeat::Undone, sql, params);
        let Ok(rows) = database.within(database.limits.aside(), read).await else {
            // Until the next look. Otherwise everybody would wait for it in vain.
            self.usable.store(false, Ordering::Relaxed);
            return None;
        };
        let row = rows.into_iter().next();
        self.reads.fetch_add(row.is_some().into(), Ordering::Relaxed);
        row
    }

    /// Where it is, without user and password.
    pub(crate) fn shown(&self) -> &str {
        &self.database.shown
    }

    /// How many reads it has spared the primary.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.database.close();
    }
}

/// How far a replica is behind its primary.
#[derive(Clone)]
pub(crate) struct Lag {
    pub(crate) shard: usize,
    pub(crate) replica: String,
    pub(crate) seconds: f64,
}

/// What was found last.
#[derive(Default)]
pub(crate) struct Lags(Mutex<Vec<Lag>>);

impl Lags {
    pub(crate) fn latest(&self) -> Vec<Lag> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, lags: Vec<Lag>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lags;
    }
}

/// Looks every few seconds, for as long as the store is there.
pub(crate) async fn watch(store: Weak<PostgresStore>) {
    let mut logs = Vec::new();
    loop {
        let Some(store) = store.upgrade() else { return };
        let lags = look(&store, &mut logs).await;
        store.lags.replace(lags);
        drop(store);
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}

/// Looks at every database. `logs` is how far each log was written at the last look.
async fn look(store: &PostgresStore, logs: &mut Vec<Option<PgLsn>>) -> Vec<Lag> {
    let mut lags = Vec::new();
    let mut written = Vec::new();
    for (shard, database) in store.databases.iter().enumerate() {
        let rows = database.query(Repeat::Undone, LAG_AT_PRIMARY, &[]).await.unwrap_or_default();
        lags.extend(rows.iter().map(|row| Lag { shard, replica: row.get(0), seconds: row.get(1) }));
        let rows = database.query(Repeat::Undone, END_OF_LOG, &[]).await.unwrap_or_default();
        written.push(rows.first().map(|row| row.get(0)));
    }
    let before = std::mem::replace(logs, written);
    for replica in &store.replicas {
        let database = &replica.database;
        let log = before.get(replica.shard).copied().flatten().or(logs[replica.shard]);
        let params: [Param<'_>; 1] = [(&log, Type::PG_LSN)];
        let rows = database.query(Repeat::Undone, LAG_AT_REPLICA, &params).await;
        let found: Option<(f64, bool)> =
            rows.ok().and_then(|rows| rows.first().map(|row| (row.get(0), row.get(1))));
        let usable = found.is_some_and(|(seconds, has_all)| has_all && seconds <= LAG_SECONDS_MAX);
        let seconds = found.map(|(seconds, _)| seconds);
        replica.usable.store(usable, Ordering::Relaxed);
        lags.extend(seconds.map(|seconds| Lag {
            shard: replica.shard,
            replica: database.shown.clone(),
            seconds,
        }));
    }
    lags
}
