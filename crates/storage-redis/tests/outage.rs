//! Servers that die, forget, remember too much, hang or change sides.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{Items, SharedPools, ToppedUp};
use support::redis::Redis;
use support::{Ledger, World, closed, epoch, opened, prompt_settings, reading, settings, until};

/// What a request may wait before it goes to the database.
const NOTICE_MAX: Duration = Duration::from_millis(100);

async fn fails_promptly(world: &World, pools: &storage_redis::SharedRedis) {
    let since = Instant::now();
    let error = world.withdraw(pools, 1).await.unwrap_err();
    assert!(since.elapsed() < NOTICE_MAX, "{:?}", since.elapsed());
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_is_used_when_it_is_up() {
    let (mut redis, world) = (Redis::start(), World::new().await);
    redis.kill();
    let pools = world.pools_with(prompt_settings(&redis.url()));
    fails_promptly(&world, &pools).await;
    assert!(pools.prepare(&world.pool).await.unwrap_err().is_unavailable());
    assert!(pools.top_up(&world.pool, world.order(9)).await.unwrap_err().is_unavailable());
    assert!(pools.contents(&world.pool).await.unwrap_err().is_unavailable());
    assert!(reading(&pools, "redis_breaker_open") > 0.0);
    redis.launch();
    closed(&pools).await;
    world.fill(&pools, 10).await;
    assert_eq!(world.withdraw(&pools, 1).await.unwrap(), [1]);
}

#[tokio::test]
async fn a_killed_server_is_noticed_and_comes_back_empty_in_a_new_epoch() {
    let (mut redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools_with(prompt_settings(&redis.url()));
    closed(&pools).await;
    world.fill(&pools, 100).await;
    let mut ledger = Ledger::default();
    ledger.add(&world.withdraw(&pools, 10).await.unwrap());
    redis.kill();
    fails_promptly(&world, &pools).await;
    assert!(pools.is_open());
    for _ in 0..100 {
        fails_promptly(&world, &pools).await;
    }
    redis.launch();
    closed(&pools).await;
    assert_eq!(epoch(&pools), 2);
    assert_eq!(pools.prepare(&world.pool).await.unwrap(), 0);
    let back = Items::Serials(vec![9, 10]);
    assert!(!pools.put_back(&world.pool, &back).await.unwrap(), "they are of epoch 1");
    world.fill(&pools, 100).await;
    ledger.add(&world.withdraw(&pools, 100).await.unwrap());
    assert!(!pools.put_back(&world.pool, &back).await.unwrap(), "they still are");
    assert!(reading(&pools, "redis_breaker_openings") >= 1.0);
}

#[tokio::test]
async fn a_server_with_an_old_snapshot_gives_out_nothing_from_it() {
    let (mut redis, world) = (Redis::start(), World::new().await);
    let pools = [world.pools(&redis.url()).await, world.pools(&redis.url()).await];
    world.fill(&pools[0], 1000).await;
    let mut ledger = Ledger::default();
    ledger.add(&world.withdraw(&pools[0], 100).await.unwrap());
    redis.run::<()>("SAVE");
    ledger.add(&world.withdraw(&pools[0], 400).await.unwrap());
    ledger.add(&world.withdraw(&pools[1], 400).await.unwrap());
    for round in 2..5 {
        redis.kill();
        redis.launch();
        let log = std::fs::read_to_string(redis.path().join("log")).unwrap();
        assert!(log.contains("keys loaded: 1"), "the old list is back:\n{log}");
        for pools in &pools {
            until("the new epoch", async || epoch(pools) == round && !pools.is_open()).await;
            assert_eq!(world.withdraw(pools, 10).await.unwrap(), [0; 0]);
        }
        world.fill(&pools[0], 50).await;
        ledger.add(&world.withdraw(&pools[0], 30).await.unwrap());
        ledger.add(&world.withdraw(&pools[1], 30).await.unwrap());
    }
    assert_eq!(ledger.len(), 900 + 3 * 50);
}

#[tokio::test]
async fn a_hanging_server_is_noticed_and_its_late_answer_is_not_lost() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools_with(prompt_settings(&redis.url()));
    closed(&pools).await;
    world.fill(&pools, 100).await;
    redis.pause();
    fails_promptly(&world, &pools).await;
    assert!(pools.is_open());
    let since = Instant::now();
    for _ in 0..100 {
        assert!(world.withdraw(&pools, 1).await.is_err());
    }
    assert!(since.elapsed() < NOTICE_MAX, "an open breaker does not wait");
    redis.resume();
    until("the late answer", async || reading(&pools, "redis_stray_serials") > 0.0).await;
    closed(&pools).await;
    assert_eq!(epoch(&pools), 1, "it is the same server with the same data");
    let contents = pools.contents(&world.pool).await.unwrap().unwrap();
    assert_eq!(contents.serials, (1..101).collect::<Vec<_>>());
    assert_eq!(world.withdraw(&pools, 100).await.unwrap(), (1..101).collect::<Vec<_>>());
}

/// Strays are handed out even while the server is away, and go back when the service ends.
#[tokio::test]
async fn strays_are_used_or_put_back() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools_with(prompt_settings(&redis.url()));
    closed(&pools).await;
    world.fill(&pools, 100).await;
    redis.pause();
    assert!(world.withdraw(&pools, 10).await.is_err());
    redis.resume();
    until("the late answer", async || reading(&pools, "redis_stray_serials") > 9.0).await;
    closed(&pools).await;
    redis.pause();
    let withdrawn = world.withdraw(&pools, 4).await.unwrap();
    assert_eq!(withdrawn, [1, 2, 3, 4], "nobody had to be asked");
    redis.resume();
    closed(&pools).await;
    pools.close().await;
    let again = world.pools(&redis.url()).await;
    assert_eq!(world.withdraw(&again, 100).await.unwrap(), (5..101).collect::<Vec<_>>());
}

/// A caller that goes away while it waits leaves its serials to the next one.
#[tokio::test]
async fn a_cancelled_withdrawal_loses_nothing() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 1000).await;
    let mut ledger = Ledger::default();
    for wait in 0..200 {
        let withdrawal = world.withdraw(&pools, 3);
        if let Ok(serials) = tokio::time::timeout(Duration::from_micros(wait * 5), withdrawal).await
        {
            ledger.add(&serials.unwrap());
        }
    }
    until("every serial turns up", async || {
        ledger.add(&world.withdraw(&pools, 1000).await.unwrap());
        ledger.len() == 1000
    })
    .await;
}

#[tokio::test]
async fn a_push_without_an_answer_is_never_repeated() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools_with(prompt_settings(&redis.url()));
    closed(&pools).await;
    let mut ledger = Ledger::default();
    for _ in 0..5 {
        let refill = tokio::spawn({
            let (pools, pool, order) =
                (Arc::clone(&pools), world.pool.clone(), world.order(500_000));
            async move { pools.top_up(&pool, order).await }
        });
        until("some are pushed", async || {
            pools.prepare(&world.pool).await.unwrap_or(1) > 0 || refill.is_finished()
        })
        .await;
        redis.pause();
        let outcome = refill.await.unwrap();
        assert!(!matches!(outcome, Ok(ToppedUp::Exhausted | ToppedUp::Busy)), "{outcome:?}");
        redis.resume();
        closed(&pools).await;
        until("the pool is empty", async || {
            let serials = world.withdraw(&pools, 200_000).await.unwrap_or_default();
            ledger.add(&serials);
            serials.is_empty() && !pools.is_open()
        })
        .await;
        // The lock of a refill that ended badly has to expire.
        redis.run::<()>(&format!("DEL mintage:{{{}:}}:1:refill", world.pool.type_id.0));
    }
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_is_left() {
    let (master, redis, world) = (Redis::start(), Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 100).await;
    redis.run::<()>(&format!("REPLICAOF 127.0.0.1 {}", master.port));
    assert!(world.withdraw(&pools, 1).await.unwrap_err().is_unavailable());
    opened(&pools).await;
    until("it is tried again", async || reading(&pools, "redis_connect_failures") > 2.0).await;
    redis.run::<()>("REPLICAOF NO ONE");
    closed(&pools).await;
    assert_eq!(epoch(&pools), 2);
    assert_eq!(pools.prepare(&world.pool).await.unwrap(), 0);
}

/// The subtle one: a master is demoted, gets the older data of its replica, and is promoted again,
/// while our connection to it stays open and the next look at the server is far away.
#[tokio::test]
async fn a_server_whose_data_went_back_in_time_is_noticed_by_the_next_withdrawal() {
    let (redis, replica, world) = (Redis::start(), Redis::start(), World::new().await);
    replica.run::<()>(&format!("REPLICAOF 127.0.0.1 {}", redis.port));
    let linked = |server: &Redis| {
        let info: String = server.run("INFO replication");
        info.contains("master_link_status:up")
    };
    until("the replica is linked", async || linked(&replica)).await;
    let pools = world.pools_with(storage_redis::Settings {
        probe_interval: Duration::from_secs(3600),
        ..settings(&redis.url())
    });
    closed(&pools).await;
    world.fill(&pools, 100).await;
    let list = format!("LLEN mintage:{{{}:}}:1:serials", world.pool.type_id.0);
    until("the replica has the pool", async || replica.run::<u64>(&list) == 100).await;
    replica.run::<()>("REPLICAOF NO ONE");
    let mut ledger = Ledger::default();
    ledger.add(&world.withdraw(&pools, 60).await.unwrap());
    redis.run::<()>(&format!("REPLICAOF 127.0.0.1 {}", replica.port));
    until("the old master has the old data", async || linked(&redis)).await;
    redis.run::<()>("REPLICAOF NO ONE");
    assert_eq!(redis.run::<u64>(&list), 100, "serials that were handed out are there again");
    assert!(!pools.is_open(), "nobody has noticed");
    let error = world.withdraw(&pools, 10).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    closed(&pools).await;
    assert_eq!(epoch(&pools), 2);
    world.fill(&pools, 100).await;
    ledger.add(&world.withdraw(&pools, 100).await.unwrap());
    assert_eq!(ledger.len(), 160);
}

/// Two instances that reach different servers, both masters.
#[tokio::test]
async fn a_split_brain_hands_out_nothing_twice() {
    let (one, two, world) = (Redis::start(), Redis::start(), World::new().await);
    let first = world.pools(&one.url()).await;
    world.fill(&first, 100).await;
    let mut ledger = Ledger::default();
    ledger.add(&world.withdraw(&first, 10).await.unwrap());
    let second = world.pools(&two.url()).await;
    assert_eq!(epoch(&second), 2);
    until("both have seen several epochs", async || {
        for pools in [&first, &second] {
            let _ = pools.top_up(&world.pool, world.order(100)).await;
            ledger.add(&world.withdraw(pools, 7).await.unwrap_or_default());
        }
        epoch(&first).max(epoch(&second)) > 5
    })
    .await;
}

/// A database that does not answer takes nothing from a link that stands.
#[tokio::test]
async fn a_new_server_is_not_used_before_the_database_knows_it() {
    let (redis, world) = (Redis::start(), World::new().await);
    storage::Store::close(world.store.as_ref()).await.unwrap();
    let pools = world.pools_with(settings(&redis.url()));
    until("it was tried", async || reading(&pools, "redis_connect_failures") > 2.0).await;
    assert!(pools.is_open());
}
