//! How fast a pool gives out serials: `cargo run --release -p storage-redis --example measure_redis`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::SharedPools;
use support::redis::Redis;
use support::{World, reading};
use tokio::task::JoinSet;

const LASTS: Duration = Duration::from_secs(3);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (redis, world) = (Redis::start(), Arc::new(World::new().await));
    let pools = world.pools(&redis.url()).await;
    let since = Instant::now();
    let topped = pools.top_up(&world.pool, world.order(1_000_000)).await.unwrap();
    println!("a refill of a million serials: {:?} ({topped:?})", since.elapsed());
    for (tasks, count) in [(1, 1), (1, 64), (8, 64), (64, 64)] {
        let (done, took) = withdraw(&world, &pools, tasks, count).await;
        let per_second = f64::from(done) / took.as_secs_f64();
        let items = per_second * f64::from(u32::try_from(count).unwrap());
        println!("{tasks:>3} tasks, {count:>2} each: {per_second:>8.0}/s, {items:>9.0} serials/s");
    }
    let (times, seconds) =
        (reading(&pools, "redis_withdraws"), reading(&pools, "redis_withdraw_seconds"));
    println!("mean of {times} withdrawals: {:.0} µs", seconds / times * 1e6);
}

/// Withdraws from a pool that is refilled whenever it runs low.
async fn withdraw(
    world: &Arc<World>,
    pools: &Arc<storage_redis::SharedRedis>,
    tasks: usize,
    count: usize,
) -> (u32, Duration) {
    world.fill(pools, 1_000_000).await;
    let since = Instant::now();
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        let (world, pools) = (Arc::clone(world), Arc::clone(pools));
        set.spawn(async move {
            let mut done = 0;
            while since.elapsed() < LASTS {
                let withdrawn = pools.withdraw(&world.pool, count).await.unwrap();
                if withdrawn.items.len() < count {
                    return done;
                }
                done += 1;
            }
            done
        });
    }
    let done = set.join_all().await.into_iter().sum();
    (done, since.elapsed())
}
