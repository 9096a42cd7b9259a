#![doc = include_str!("../README.md")]

mod address;
mod answers;
mod audit;
pub mod baseline;
mod batches;
mod codes;
mod counters;
mod database;
mod documents;
mod error;
mod gaps;
mod instances;
mod issues;
mod keys;
mod listen;
mod lookup;
mod losses;
mod manifests;
mod migrate;
mod open;
mod outbox;
mod placements;
mod pools;
mod readings;
mod receivers;
mod reconcile;
mod replicas;
mod session;
mod settings;
mod spans;
mod tenants;
mod time;
mod tls;
mod types;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use storage::{BatchId, Reading, Result, Store, StoreError, TypeId};
use tokio::task::JoinHandle;

pub use error::OpenError;
pub use settings::{PostgresSettings, SHARDS_MAX, ShardSettings};

use batches::ShardTurns;
use codes::CodeTables;
use database::{Database, Repeat};
use documents::Stands;
use error::corrupt;
use listen::{Listener, Orders};
use open::Opened;
use placements::Placements;
use pools::Pools;
use replicas::{Lags, Replica};

/// The numbers of types are multiples of this, plus the number of their shard.
const NUMBER_STEP: i64 = 256;

/// The store of a cluster: a catalogue and its shards.
pub struct PostgresStore {
    cluster: String,
    /// By shard number; the catalogue is the first.
    databases: Vec<Database>,
    replicas: Vec<Replica>,
    lags: Lags,
    pools: Pools,
    code_tables: CodeTables,
    placements: Placements,
    /// Where counters of gapless types stand, as far as this instance knows.
    stands: Stands,
    /// Whose turn it is to give a chunk.
    turns: ShardTurns,
    orders: Arc<Orders>,
    /// The tasks that look after replicas and listen, until the store is closed.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// A name that no other cluster has, whatever its databases are called.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Connects to every database and makes or changes what is needed there.
    pub async fn open(settings: PostgresSettings) -> Result<Arc<Self>, OpenError> {
        let Opened { cluster, databases, replicas, listeners } = open::open(&settings).await?;
        let store = Arc::new(Self {
            cluster,
            databases,
            replicas,
            lags: Lags::default(),
            pools: Pools::default(),
            code_tables: CodeTables::default(),
            placements: Placements::default(),
            stands: Stands::default(),
            turns: ShardTurns::default(),
            orders: Arc::default(),
            tasks: Mutex::default(),
        });
        let mut tasks = vec![tokio::spawn(replicas::watch(Arc::downgrade(&store)))];
        let listen = |listener: Listener| tokio::spawn(listener.run(Arc::clone(&store.orders)));
        tasks.extend(listeners.into_iter().map(listen));
        *store.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        Ok(store)
    }

    fn catalogue(&self) -> &Database {
        &self.databases[0]
    }

    /// Where the rows of a type are, if there can be such a type.
    fn shard_of(&self, id: TypeId) -> Option<&Database> {
        self.databases.get(shard_number(id))
    }

    /// Where the rows of a type are.
    fn shard(&self, id: TypeId) -> Result<&Database> {
        self.shard_of(id).ok_or(StoreError::NotFound("type"))
    }

    /// Where the rows of a batch are, if there can be such a batch.
    fn shard_of_batch(&self, id: BatchId) -> Option<&Database> {
        self.databases.get(usize::from(id.shard()))
    }

    /// Runs the same statement on every database.
    async fn everywhere(&self, sql: &str) -> Result<Vec<tokio_postgres::Row>> {
        let rows = try_join_all(
            self.databases.iter().map(|database| database.query(Repeat::Always, sql, &[])),
        );
        Ok(rows.await?.into_iter().flatten().collect())
    }
}

/// The number of the shard that a type is on.
fn shard_number(id: TypeId) -> usize {
    usize::try_from(id.0.rem_euclid(NUMBER_STEP)).expect("it is less than a byte holds")
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.end_tasks();
    }
}

impl PostgresStore {
    fn end_tasks(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn check(&self) -> Result<()> {
        // Only a real write notices that the disk is full or the server a replica.
        self.everywhere("UPDATE probe SET at = clock_timestamp()").await?;
        Ok(())
    }

    async fn catalogue_version(&self) -> Result<u64> {
        // Each of them only ever grows, and so does their sum.
        let rows = self.everywhere("SELECT version FROM meta").await?;
        let versions = rows.iter().map(|row| u64::try_from(row.get::<_, i64>(0)));
        let sum = versions.sum::<Result<u64, _>>();
        sum.map_err(|_| corrupt("the version of the catalogue is negative"))
    }

    fn readings(&self) -> Vec<Reading> {
        readings::readings(self)
    }

    async fn close(&self) -> Result<()> {
        self.end_tasks();
        for database in &self.databases {
            database.close();
        }
        for replica in &self.replicas {
            replica.close();
        }
        Ok(())
    }
}
