//! Turns of tenants: who is next, and what becomes of a turn whose worker is gone.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::{Dispatch, Noticeboard, SharedPools, WorkerName};
use storage_redis::{Settings, SharedRedis};
use support::redis::Redis;
use support::{World, closed, epoch, opened, prompt_settings, reading, settings, until};
use tokio::task::JoinSet;

fn worker(number: u32) -> WorkerName {
    WorkerName { instance: "here".to_owned(), number }
}

async fn take(redis: &SharedRedis, number: u32) -> Option<String> {
    redis.take_turn(&worker(number)).await.unwrap()
}

async fn end(redis: &SharedRedis, number: u32, tenant: &str, goes_on: bool) {
    redis.end_turn(&worker(number), tenant, goes_on).await.unwrap();
}

#[tokio::test]
async fn tenants_come_one_after_the_other() {
    let (server, world) = (Redis::start(), World::new().await);
    let (one, other) = (world.pools(&server.url()).await, world.pools(&server.url()).await);
    assert_eq!(take(&one, 0).await, None);
    one.offer_turns(&["a", "b"]).await.unwrap();
    other.offer_turns(&["b", "c", "a"]).await.unwrap();
    for tenant in ["a", "b", "c", "a", "b"] {
        let redis = if tenant == "b" { &other } else { &one };
        assert_eq!(take(redis, 0).await.as_deref(), Some(tenant), "each has one turn");
        end(redis, 0, tenant, true).await;
    }
    for (number, tenant) in [(0, "c"), (1, "a"), (2, "b")] {
        assert_eq!(take(&one, number).await.as_deref(), Some(tenant));
    }
    assert_eq!(take(&one, 3).await, None, "all are with somebody");
    // While a worker finds out that there is nothing to do, somebody orders.
    other.offer_turns(&["a"]).await.unwrap();
    end(&one, 1, "a", false).await;
    end(&one, 2, "b", false).await;
    end(&one, 0, "c", true).await;
    assert_eq!(take(&one, 1).await.as_deref(), Some("a"));
    end(&one, 1, "a", false).await;
    assert_eq!(take(&one, 1).await.as_deref(), Some("c"));
    end(&one, 1, "c", false).await;
    assert_eq!(take(&one, 1).await, None);
    assert_eq!(server.run::<Vec<String>>("KEYS *"), [""; 0], "nothing is left behind");
}

#[tokio::test]
async fn a_tenant_that_is_offered_while_it_has_its_turn_gets_no_second_one() {
    let (server, world) = (Redis::start(), World::new().await);
    let redis = world.pools(&server.url()).await;
    redis.offer_turns(&["a"]).await.unwrap();
    assert_eq!(take(&redis, 0).await.as_deref(), Some("a"));
    redis.offer_turns(&["a"]).await.unwrap();
    end(&redis, 0, "a", true).await;
    assert_eq!(take(&redis, 0).await.as_deref(), Some("a"));
    end(&redis, 0, "a", false).await;
    assert_eq!(take(&redis, 0).await, None);
}

/// The answer to its question got lost on the way.
#[tokio::test]
async fn a_turn_that_never_reached_its_worker_is_the_next_one() {
    let (server, world) = (Redis::start(), World::new().await);
    let redis = world.pools(&server.url()).await;
    redis.offer_turns(&["a", "b"]).await.unwrap();
    for _ in 0..3 {
        assert_eq!(take(&redis, 0).await.as_deref(), Some("a"));
    }
    assert_eq!(take(&redis, 1).await.as_deref(), Some("b"));
}

#[tokio::test]
async fn a_turn_of_a_worker_that_is_gone_comes_back() {
    let (server, world) = (Redis::start(), World::new().await);
    let gone = world.pools(&server.url()).await;
    gone.offer_turns(&["a", "b"]).await.unwrap();
    assert_eq!(take(&gone, 0).await.as_deref(), Some("a"));
    assert_eq!(
        gone.await_turn(&worker(1), Duration::from_secs(9)).await.unwrap().as_deref(),
        Some("b")
    );
    drop(gone);
    let patient = Settings { turn_ttl: Duration::from_secs(60), ..settings(&server.url()) };
    let patient = world.pools_with(patient);
    closed(&patient).await;
    assert_eq!(take(&patient, 2).await, None, "they may still be at it");
    let hasty = Settings { turn_ttl: Duration::from_millis(1), ..settings(&server.url()) };
    let hasty = world.pools_with(hasty);
    closed(&hasty).await;
    let mut back = Vec::new();
    until("both are back", async || {
        if let Some(tenant) = take(&hasty, 2).await {
            end(&hasty, 2, &tenant, false).await;
            back.push(tenant);
        }
        back.len() == 2
    })
    .await;
    back.sort_unstable();
    assert_eq!(back, ["a", "b"]);
    assert!(reading(&hasty, "redis_turns_returned") >= 2.0);
}

#[tokio::test]
async fn whoever_waits_has_the_turn_as_soon_as_it_is_offered() {
    let (server, world) = (Redis::start(), World::new().await);
    let (one, other) = (world.pools(&server.url()).await, world.pools(&server.url()).await);
    let mut waits = JoinSet::new();
    for number in [0, 1] {
        let one = Arc::clone(&one);
        waits.spawn(async move {
            let turn = one.await_turn(&worker(number), Duration::from_secs(20)).await.unwrap();
            (number, turn.unwrap(), Instant::now())
        });
    }
    until("both wait", async || server.run::<String>("INFO clients").contains("blocked_clients:2"))
        .await;
    let offered = Instant::now();
    other.offer_turns(&["a"]).await.unwrap();
    // Its turn goes from one to the other.
    while let Some(wait) = waits.join_next().await {
        let (number, tenant, at) = wait.unwrap();
        assert_eq!(tenant, "a");
        assert!(at - offered < Duration::from_secs(5), "{:?}", at - offered);
        end(&one, number, "a", !waits.is_empty()).await;
    }
}

#[tokio::test]
async fn a_wait_ends_in_time_and_can_be_broken_off() {
    let (server, world) = (Redis::start(), World::new().await);
    let redis = world.pools(&server.url()).await;
    let short = Duration::from_millis(10);
    for _ in 0..3 {
        assert_eq!(redis.await_turn(&worker(0), short).await.unwrap(), None);
    }
    let clients = || {
        let info = server.run::<String>("INFO clients");
        info.lines().find_map(|line| line.strip_prefix("connected_clients:")).unwrap().to_owned()
    };
    let (before, me) = (clients(), worker(0));
    for _ in 0..5 {
        let wait = redis.await_turn(&me, Duration::from_secs(20));
        assert!(tokio::time::timeout(short, wait).await.is_err());
    }
    until("the connections are gone", async || {
        clients().parse::<u32>().unwrap() <= before.parse().unwrap()
    })
    .await;
    redis.offer_turns(&["a"]).await.unwrap();
    assert_eq!(take(&redis, 0).await.as_deref(), Some("a"), "nobody else has it");
}

#[tokio::test]
async fn a_server_that_lost_everything_is_told_again() {
    let (mut server, world) = (Redis::start(), World::new().await);
    let redis = world.pools_with(prompt_settings(&server.url()));
    closed(&redis).await;
    redis.offer_turns(&["a", "b"]).await.unwrap();
    server.run::<()>("SAVE");
    assert_eq!(take(&redis, 0).await.as_deref(), Some("a"));
    server.run::<()>("FLUSHALL");
    end(&redis, 0, "a", true).await;
    assert_eq!(take(&redis, 0).await.as_deref(), Some("a"));
    assert_eq!(take(&redis, 1).await, None, "nobody has offered b again");
    let wait = tokio::spawn({
        let redis = Arc::clone(&redis);
        async move { redis.await_turn(&worker(1), Duration::from_secs(20)).await }
    });
    until("it waits", async || server.run::<String>("INFO clients").contains("blocked_clients:1"))
        .await;
    server.kill();
    assert!(wait.await.unwrap().unwrap_err().is_unavailable());
    assert!(redis.offer_turns(&["c"]).await.unwrap_err().is_unavailable());
    opened(&redis).await;
    assert!(!redis.is_up());
    server.launch();
    closed(&redis).await;
    assert_eq!(epoch(&redis), 2);
    assert_eq!(take(&redis, 0).await, None, "the old turns are of an epoch that is over");
    redis.offer_turns(&["c"]).await.unwrap();
    assert_eq!(
        redis.await_turn(&worker(1), Duration::from_secs(9)).await.unwrap().as_deref(),
        Some("c")
    );
    until("the old keys are gone", async || {
        server.run::<Vec<String>>("KEYS mintage:{*}:1:*").is_empty()
    })
    .await;
}

/// As an operator would set it up for a release that had only pools.
#[tokio::test]
async fn a_user_who_may_not_use_turns_can_still_use_the_pools() {
    let (server, world) = (Redis::start(), World::new().await);
    server.run::<()>("ACL SETUSER pools on >secret ~* +@all -lmove -blmove -hset");
    let url = format!("redis://pools:secret@127.0.0.1:{}", server.port);
    let redis = world.pools(&url).await;
    world.fill(&redis, 10).await;
    redis.offer_turns(&["a"]).await.unwrap();
    assert!(redis.take_turn(&worker(0)).await.is_err());
    assert!(redis.await_turn(&worker(0), Duration::from_millis(10)).await.is_err());
    assert!(!redis.is_open());
    assert!(reading(&redis, "redis_notes_refused") > 0.0);
    assert_eq!(world.withdraw(&redis, 2).await.unwrap(), [1, 2]);
    redis.close().await;
}
