//! Read replicas, and how far they are behind.

use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::address::Address;
use crate::database::{Database, Repeat};
use crate::error::OpenError;
use crate::{PostgresSettings, PostgresStore};

const REFRESH_EVERY: Duration = Duration::from_secs(5);

/// As the primary sees its standbys. What it may not show us is left out.
const LAG_AT_PRIMARY: &str = "
    SELECT application_name || coalesce('@' || host(client_addr), ''),
           extract(epoch FROM coalesce(replay_lag, interval '0'))::float8
    FROM pg_stat_replication WHERE state IS NOT NULL";

/// As a replica sees itself. One that has applied all it has received is not behind, however long
/// nothing was written.
const LAG_AT_REPLICA: &str = "
    SELECT CASE
        WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
        ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0)
    END::float8";

/// A copy of a shard that can be read.
pub(crate) struct Replica {
    shard: usize,
    database: Database,
}

impl Replica {
    pub(crate) fn new(
        shard: usize,
        address: &Address,
        settings: &PostgresSettings,
    ) -> Result<Self, OpenError> {
        let settings = PostgresSettings { connections_max: 2, ..settings.clone() };
        Ok(Self { shard, database: Database::new(address, &settings)? })
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
    loop {
        let Some(store) = store.upgrade() else { return };
        let lags = look(&store).await;
        store.lags.replace(lags);
        drop(store);
        tokio::time::sleep(REFRESH_EVERY).await;
    }
}

async fn look(store: &PostgresStore) -> Vec<Lag> {
    let mut lags = Vec::new();
    for (shard, database) in store.databases.iter().enumerate() {
        let rows = database.query(Repeat::Undone, LAG_AT_PRIMARY, &[]).await.unwrap_or_default();
        lags.extend(rows.iter().map(|row| Lag { shard, replica: row.get(0), seconds: row.get(1) }));
    }
    for replica in &store.replicas {
        let database = &replica.database;
        let rows = database.query(Repeat::Undone, LAG_AT_REPLICA, &[]).await.unwrap_or_default();
        lags.extend(rows.first().map(|row| Lag {
            shard: replica.shard,
            replica: database.shown.clone(),
            seconds: row.get(0),
        }));
    }
    lags
}
