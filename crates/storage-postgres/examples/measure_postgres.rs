//! Measures draws and table pools on a real server:
//!
//! ```sh
//! eval "$(scripts/services start)"
//! cargo run --release -p storage-postgres --example measure_postgres -- "$MINTAGE__POSTGRES__URL"
//! ```
//!
//! It leaves what it makes in the database, so give it one that you do not need.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idgen::spec::{IdType, SERIAL_MAX};
use jiff::Timestamp;
use storage::{CounterStore, Draw, PoolKey, SharedPools, StoredType, TopUp, ToppedUp, TypeStore};
use storage_postgres::{PostgresSettings, PostgresStore};
use tokio_postgres::NoTls;

/// IDs that are taken out of one table, and how many of them are compared.
const IDS: u64 = 2_000_000;
const COMPARED: u64 = 100_000;

const TASKS: u64 = 64;

type AnyResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn id_type(kind: &str) -> AnyResult<IdType> {
    // Every run has types of its own.
    let name = format!("measure_{}", std::process::id());
    let json = format!(r#"{{"tenant": "default", "name": "{name}_{}", {kind}}}"#, &kind[1..3]);
    Ok(serde_json::from_str(&json)?)
}

async fn draw(store: &PostgresStore, type_id: storage::TypeId) -> AnyResult<Duration> {
    let (bounds, now) = ((0, SERIAL_MAX), Timestamp::UNIX_EPOCH);
    let began = Instant::now();
    store
        .draw(Draw { type_id, period: "", count: 100, bounds, holder: "me", revision: 0, now })
        .await?;
    Ok(began.elapsed())
}

fn show(what: &str, mut times: Vec<Duration>, took: Duration) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let rate = times.len() as u128 * 1_000_000 / took.as_micros().max(1);
    println!("{what}: p50 {:?}, p99 {:?}, {rate} per second", at(50), at(99));
}

async fn measure_draws(store: &Arc<PostgresStore>) -> AnyResult<()> {
    let sequence = id_type(r#""sequence": {}"#)?;
    let id = store.create_type(&sequence, &[], Timestamp::UNIX_EPOCH).await?.id;
    let began = Instant::now();
    let mut times = Vec::new();
    for _ in 0..1000 {
        times.push(draw(store, id).await?);
    }
    show("draw, one after the other", times, began.elapsed());
    let began = Instant::now();
    let tasks = (0..16).map(|_| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..100 {
                times.push(draw(&store, id).await?);
            }
            AnyResult::Ok(times)
        })
    });
    let mut times = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        times.extend(task.await??);
    }
    show("draw, 16 at once from one counter", times, began.elapsed());
    Ok(())
}

/// Scrambled, as real IDs are, so that the primary key grows everywhere at once.
fn render(serials: Range<u64>) -> Vec<String> {
    serials
        .map(|serial| format!("{:016x}", (serial + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect()
}

async fn fill(store: &PostgresStore, pool: &PoolKey) -> AnyResult<()> {
    let began = Instant::now();
    let order = TopUp {
        size: IDS,
        serials_max: 20_000,
        bounds: (0, IDS),
        revision: 0,
        render: Arc::new(render),
        acceptance: 1.0,
        wait: true,
        now: Timestamp::UNIX_EPOCH,
    };
    // Every step counts what is there, so the last ones take longer than they would in a pool that
    // is refilled before it has so many.
    let mut level = 0;
    while let ToppedUp::Added { items, .. } =
        store.top_up(pool, TopUp { size: level + 20_000, ..order.clone() }).await?
    {
        level += items;
    }
    println!("filled with {level} IDs in {:?}", began.elapsed());
    Ok(())
}

/// Takes so many IDs, so many at a time, over so many tasks, and returns how long that took.
async fn take(
    store: &Arc<PostgresStore>,
    pool: &PoolKey,
    ids: u64,
    at_a_time: u64,
    tasks: u64,
) -> AnyResult<Duration> {
    let began = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (store, pool) = (Arc::clone(store), pool.clone());
            tokio::spawn(async move {
                for _ in 0..ids / at_a_time / tasks {
                    let count = usize::try_from(at_a_time)?;
                    let taken = store.withdraw(&pool, count).await?;
                    assert_eq!(taken.items.len(), count, "the pool has run out");
                }
                AnyResult::Ok(())
            })
        })
        .collect();
    for task in running {
        task.await??;
    }
    Ok(began.elapsed())
}

fn show_rate(what: &str, ids: u64, took: Duration) {
    let rate = u128::from(ids) * 1_000_000 / took.as_micros().max(1);
    println!("{what}: {rate} IDs per second ({took:?})");
}

fn key(stored: &StoredType) -> PoolKey {
    PoolKey {
        type_id: stored.id,
        tenant: stored.id_type.tenant().to_owned(),
        name: stored.id_type.name().to_owned(),
        period: String::new(),
    }
}

async fn measure_pool(store: &Arc<PostgresStore>, url: &str) -> AnyResult<()> {
    let random = id_type(r#""random": {"alphabet": "hex", "length": 16}"#)?;
    let pool = key(&store.create_type(&random, b"key", Timestamp::UNIX_EPOCH).await?);
    store.prepare(&pool).await?;
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    // Nobody tidies up while it is measured.
    let no_vacuum = format!("ALTER TABLE id_pool_{} SET (autovacuum_enabled = off)", pool.name);
    client.batch_execute(&no_vacuum).await?;
    fill(store, &pool).await?;

    let first = take(store, &pool, COMPARED, TASKS, 1).await?;
    show_rate("first 100,000, 64 at a time, one connection", COMPARED, first);
    let part = take(store, &pool, COMPARED, TASKS, 8).await?;
    show_rate("64 at a time, eight connections", COMPARED, part);
    let part = take(store, &pool, COMPARED, 2000, 1).await?;
    show_rate("2000 at a time, one connection", COMPARED, part);
    let part = take(store, &pool, 20_000, 1, 8).await?;
    show_rate("one at a time, eight connections", 20_000, part);
    let left = IDS - 3 * COMPARED - 20_000 - COMPARED;
    take(store, &pool, left - left % 2000, 2000, 1).await?;
    let last = take(store, &pool, COMPARED - 6400, TASKS, 1).await?;
    show_rate("last 100,000, 64 at a time, one connection", COMPARED - 6400, last);
    Ok(())
}

#[tokio::main]
async fn main() -> AnyResult<()> {
    let url = std::env::args().nth(1).ok_or("usage: measure postgres://…")?;
    let store = PostgresStore::open(PostgresSettings::new(&url)).await?;
    measure_draws(&store).await?;
    measure_pool(&store, &url).await
}
