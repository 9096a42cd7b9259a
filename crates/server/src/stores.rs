//! Which stores the configuration asks for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use engine::issuing::SharedPoolSet;
use engine::surroundings::{Clock as _, Entropy as _};
use storage::{Noticeboard, SharedPools, Store};
use storage_postgres::{PostgresSettings, PostgresStore, ShardSettings};
use storage_redis::SharedRedis;
use storage_sqlite::SqliteStore;

use crate::config::{Config, RedisConfig};
use crate::wiring::{SystemClock, SystemEntropy};

/// What the service remembers in, and what its instances share.
pub(crate) struct Stores {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared_pools: SharedPoolSet,
    pub(crate) board: Option<Arc<dyn Noticeboard>>,
}

/// Opens the stores that the configuration names.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Stores> {
    let Some(settings) = postgres_settings(config) else {
        let store = Arc::new(SqliteStore::open(&config.store.directory)?);
        return Ok(Stores { store, shared_pools: SharedPoolSet::default(), board: None });
    };
    let store = PostgresStore::open(settings).await?;
    let redis = match &config.redis.url {
        Some(url) => Some(connect(&config.redis, url.expose(), &store).await?),
        None => None,
    };
    let serials = redis.clone().map(|redis| redis as Arc<dyn SharedPools>);
    let shared_pools = SharedPoolSet { ids: Some(Arc::clone(&store) as _), serials };
    Ok(Stores { store, shared_pools, board: redis.map(|redis| redis as _) })
}

/// Rows of codes that can be written per second in the bare way: into PostgreSQL at an address, or into
/// a file in a directory.
#[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits")]
pub(crate) fn bare_rows_per_second(
    postgres: Option<&str>,
    directory: &Path,
    rows: u64,
) -> anyhow::Result<f64> {
    let took = match postgres {
        None => storage_sqlite::baseline::bare_inserts(directory, rows)?,
        Some(url) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(storage_postgres::baseline::bare_copy(url, rows))?,
    };
    Ok(rows as f64 / took.as_secs_f64())
}

/// Has PostgreSQL at an address write what it has put off. False if that is not allowed.
pub(crate) fn write_out(postgres: &str) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(storage_postgres::baseline::write_out(postgres))?)
}

/// Longest wait for Redis at the start.
const REDIS_WAIT: Duration = Duration::from_millis(500);

async fn connect(
    config: &RedisConfig,
    url: &str,
    store: &Arc<PostgresStore>,
) -> anyhow::Result<Arc<SharedRedis>> {
    let settings = storage_redis::Settings {
        timeout: Duration::from_millis(config.timeout_milliseconds.into()),
        lock_ttl: Duration::from_secs(config.lock_seconds.into()),
        ca_file: config.ca_file.clone(),
        // Deployments that share a Redis by mistake must not share their numbers.
        namespace: format!("mintage:{}", store.cluster()),
        ..storage_redis::Settings::new(url)
    };
    let clock = Arc::new(|| SystemClock.now());
    let tokens = Arc::new(|| {
        let mut bytes = [0; 16];
        SystemEntropy.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    });
    let store = Arc::clone(store) as _;
    let redis = SharedRedis::connect(settings, store, clock, tokens).context("redis.url")?;
    // Where Redis is there, sequences go on where its pools are. Where it is not, PostgreSQL serves.
    let connected = async {
        while redis.is_open() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(REDIS_WAIT, connected).await;
    Ok(redis)
}

fn postgres_settings(config: &Config) -> Option<PostgresSettings> {
    let postgres = &config.postgres;
    let text = |secret: &crate::config::SecretText| secret.expose().to_owned();
    let timeout = Duration::from_millis(postgres.timeout_milliseconds.into());
    Some(PostgresSettings {
        replica: postgres.replica.as_ref().map(text),
        shards: postgres
            .shards
            .iter()
            .map(|shard| ShardSettings {
                url: text(&shard.url),
                replica: shard.replica.as_ref().map(text),
            })
            .collect(),
        connections_max: postgres.connections_max as usize,
        wait_timeout: timeout / 2,
        connect_timeout: timeout / 2,
        step_timeout: timeout,
        prepared_statements: postgres.prepared_statements,
        tls_root_file: postgres.ca_file.clone(),
        ..PostgresSettings::new(text(postgres.url.as_ref()?))
    })
}

/// Where the data is, for messages. A password is not shown.
pub(crate) fn place(config: &Config) -> String {
    if config.postgres.url.is_none() {
        return config.store.directory.display().to_string();
    }
    let shards = 1 + config.postgres.shards.len();
    let databases = if shards == 1 { "database" } else { "databases" };
    let redis = if config.redis.url.is_some() { ", with Redis" } else { "" };
    format!("PostgreSQL, {shards} {databases}{redis}")
}
