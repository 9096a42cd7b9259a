//! What pools do while all is well.

mod support;

use std::sync::Arc;

use storage::{CounterStore, Items, SharedPools, ToppedUp, pool_holder};
use support::redis::Redis;
use support::{Ledger, World, epoch, reading, serials, settings, until};
use tokio::task::JoinSet;

#[tokio::test]
async fn serials_come_out_in_order() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    assert_eq!(pools.prepare(&world.pool).await.unwrap(), 0);
    let topped = pools.top_up(&world.pool, world.order(5000)).await.unwrap();
    assert_eq!(topped, ToppedUp::Added { drawn: 1..5001, items: 5000, level: 5000 });
    assert_eq!(pools.prepare(&world.pool).await.unwrap(), 5000);
    let first = pools.withdraw(&world.pool, 64).await.unwrap();
    assert_eq!(first.left, 4936);
    assert_eq!(serials(first), (1..65).collect::<Vec<_>>());
    assert_eq!(world.withdraw(&pools, 3).await.unwrap(), [65, 66, 67]);
    let rest = pools.withdraw(&world.pool, 9000).await.unwrap();
    assert_eq!(rest.left, 0);
    assert_eq!(serials(rest), (68..5001).collect::<Vec<_>>());
    assert_eq!(world.withdraw(&pools, 1).await.unwrap(), [0; 0]);
}

#[tokio::test]
async fn a_step_adds_only_what_is_missing_and_allowed() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let order = storage::TopUp { serials_max: 30, ..world.order(100) };
    let topped = pools.top_up(&world.pool, order.clone()).await.unwrap();
    assert_eq!(topped, ToppedUp::Added { drawn: 1..31, items: 30, level: 30 });
    world.fill(&pools, 100).await;
    assert_eq!(pools.top_up(&world.pool, order).await.unwrap(), ToppedUp::Full { level: 100 });
    world.withdraw(&pools, 10).await.unwrap();
    let topped = pools.top_up(&world.pool, world.order(100)).await.unwrap();
    assert_eq!(topped, ToppedUp::Added { drawn: 101..111, items: 10, level: 100 });
    let held = world.store.open_draws(&pool_holder(epoch(&pools))).await.unwrap();
    let held: u64 = held.iter().map(|span| span.serials.end - span.serials.start).sum();
    assert_eq!(held, 110, "what left the pool is on record until it is issued");
}

#[tokio::test]
async fn an_exhausted_counter_is_reported_and_the_lock_released() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let order = storage::TopUp { bounds: (1, 11), ..world.order(100) };
    let topped = pools.top_up(&world.pool, order.clone()).await.unwrap();
    assert_eq!(topped, ToppedUp::Added { drawn: 1..11, items: 10, level: 10 });
    for _ in 0..2 {
        let topped = pools.top_up(&world.pool, order.clone()).await.unwrap();
        assert_eq!(topped, ToppedUp::Exhausted);
    }
}

#[tokio::test]
async fn a_stale_revision_draws_nothing_and_releases_the_lock() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let stale = storage::TopUp { revision: world.revision + 1, ..world.order(100) };
    let error = pools.top_up(&world.pool, stale).await.unwrap_err();
    assert!(matches!(error, storage::StoreError::Stale), "{error}");
    assert!(!pools.is_open());
    world.fill(&pools, 100).await;
}

#[tokio::test]
async fn what_was_not_used_goes_back_to_the_head() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 10).await;
    assert_eq!(world.withdraw(&pools, 4).await.unwrap(), [1, 2, 3, 4]);
    assert!(pools.put_back(&world.pool, &Items::Serials(vec![3, 4])).await.unwrap());
    assert!(!pools.put_back(&world.pool, &Items::Ids(vec!["x".to_owned()])).await.unwrap());
    assert_eq!(world.withdraw(&pools, 3).await.unwrap(), [3, 4, 5]);
    let contents = pools.contents(&world.pool).await.unwrap().unwrap();
    assert_eq!(contents.holder, pool_holder(1));
    assert_eq!(contents.serials, [6, 7, 8, 9, 10]);
}

#[tokio::test]
async fn contents_of_a_long_list_are_complete() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 10_000).await;
    let contents = pools.contents(&world.pool).await.unwrap().unwrap();
    assert_eq!(contents.serials, (1..10_001).collect::<Vec<_>>());
}

#[tokio::test]
async fn somebody_elses_lock_is_busy_and_can_be_waited_for() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let lock = format!("mintage:{{{}:}}:1:refill", world.pool.type_id.0);
    redis.run::<()>(&format!("SET {lock} somebody"));
    let topped = pools.top_up(&world.pool, world.order(10)).await.unwrap();
    assert_eq!(topped, ToppedUp::Busy);
    assert!(reading(&pools, "redis_lock_waits") > 0.0);
    let waiting = tokio::spawn({
        let (pools, pool) = (Arc::clone(&pools), world.pool.clone());
        let order = storage::TopUp { wait: true, ..world.order(10) };
        async move { pools.top_up(&pool, order).await.unwrap() }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    redis.run::<()>(&format!("DEL {lock}"));
    let added = ToppedUp::Added { drawn: 1..11, items: 10, level: 10 };
    assert_eq!(waiting.await.unwrap(), added);
}

/// Two instances, both withdrawing and refilling as fast as they can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_never_hand_out_the_same_serial() {
    const SIZE: u64 = 3000;
    const EACH: usize = 8000;
    let (redis, world) = (Redis::start(), Arc::new(World::new().await));
    let mut tasks = JoinSet::new();
    let mut instances = Vec::new();
    for _ in 0..2 {
        let pools = world.pools(&redis.url()).await;
        for _ in 0..4 {
            let (pools, world) = (Arc::clone(&pools), Arc::clone(&world));
            tasks.spawn(async move {
                let mut taken: Vec<u64> = Vec::new();
                while taken.len() < EACH {
                    let withdrawn = pools.withdraw(&world.pool, 37).await.unwrap();
                    if withdrawn.left < SIZE / 4 {
                        let order = storage::TopUp { serials_max: 1500, ..world.order(SIZE) };
                        match pools.top_up(&world.pool, order).await.unwrap() {
                            ToppedUp::Added { level, .. } | ToppedUp::Full { level } => {
                                assert!(level <= SIZE, "{level}");
                            }
                            ToppedUp::Busy => {}
                            ToppedUp::Exhausted => panic!("there is no end"),
                        }
                    }
                    let taken_now = serials(withdrawn);
                    assert!(taken_now.is_sorted());
                    // One task sees ever higher serials, because the list is in order.
                    assert!(taken.last() < taken_now.first() || taken_now.is_empty());
                    taken.extend(taken_now);
                }
                taken
            });
        }
        instances.push(pools);
    }
    let mut ledger = Ledger::default();
    for taken in tasks.join_all().await {
        ledger.add(&taken);
    }
    let rest = instances[0].contents(&world.pool).await.unwrap().unwrap();
    ledger.add(&rest.serials);
    assert!(ledger.is_all_of(1..world.next_serial().await), "nothing is lost either");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_refills_at_once_one_draws() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = [world.pools(&redis.url()).await, world.pools(&redis.url()).await];
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let (pools, pool) = (Arc::clone(&pools[number % 2]), world.pool.clone());
        let order = storage::TopUp { wait: true, ..world.order(1000) };
        tasks.spawn(async move { pools.top_up(&pool, order).await.unwrap() });
    }
    let outcomes = tasks.join_all().await;
    let added = outcomes.iter().filter(|o| matches!(o, ToppedUp::Added { .. })).count();
    assert_eq!(added, 1, "{outcomes:?}");
    assert_eq!(world.next_serial().await, 1001);
}

#[tokio::test]
async fn pools_do_not_mix() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let other = world.another("invoice").await;
    let period = storage::PoolKey { period: "2026".to_owned(), ..world.pool.clone() };
    for (pool, size) in [(&world.pool, 3), (&other, 4), (&period, 5)] {
        pools.top_up(pool, world.order(size)).await.unwrap();
    }
    for (pool, size) in [(&world.pool, 3), (&other, 4), (&period, 5)] {
        assert_eq!(pools.withdraw(pool, 9).await.map(serials).unwrap().len(), size);
    }
}

#[tokio::test]
async fn a_list_that_somebody_has_written_to_is_not_believed() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 10).await;
    redis.run::<()>(&format!("LPUSH mintage:{{{}:}}:1:serials +7", world.pool.type_id.0));
    assert!(world.withdraw(&pools, 2).await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn lists_of_ended_epochs_are_deleted() {
    let (redis, world) = (Redis::start(), World::new().await);
    // The epoch of this server will be 3.
    world.store.pool_epoch("one", jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    world.store.pool_epoch("two", jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    for key in ["mintage:{1:}:1:serials", "mintage:{1:}:2:serials", "mintage:{1:}:4:serials"] {
        redis.run::<()>(&format!("RPUSH {key} 1"));
    }
    redis.run::<()>("SET mintage:{1:}:1:other 1");
    let pools = world.pools(&redis.url()).await;
    assert_eq!(epoch(&pools), 3);
    until("two lists are gone", async || redis.run::<u64>("DBSIZE") == 2).await;
    assert_eq!(redis.run::<u64>("EXISTS mintage:{1:}:4:serials mintage:{1:}:1:other"), 2);
}

#[tokio::test]
async fn a_closed_one_is_unavailable() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 10).await;
    pools.close().await;
    assert!(world.withdraw(&pools, 1).await.unwrap_err().is_unavailable());
    assert!(!pools.put_back(&world.pool, &Items::Serials(vec![1])).await.unwrap());
    pools.close().await;
}

/// Namespaces keep deployments apart that share a server.
#[tokio::test]
async fn another_namespace_has_other_pools() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 10).await;
    let namespace = "staging".to_owned();
    let other = world.pools_with(storage_redis::Settings { namespace, ..settings(&redis.url()) });
    support::closed(&other).await;
    assert_eq!(world.withdraw(&other, 1).await.unwrap(), [0; 0]);
}
