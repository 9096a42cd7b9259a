//! Refills that lose their lock: no serial twice, no pool too full.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use storage::{
    CounterStore, GapFilter, IssueStore, Page, SharedPools, StoreError, TopUp, ToppedUp,
    pool_holder,
};
use support::redis::Redis;
use support::{Ledger, World, reading, until};

fn lock_key(world: &World) -> String {
    format!("mintage:{{{}:}}:1:refill", world.pool.type_id.0)
}

/// Whatever was drawn is in the pool, came out of it, or is a gap. Nothing is so twice.
async fn account(world: &World, ledger: &mut Ledger, pools: &impl SharedPools) {
    ledger.add(&pools.contents(&world.pool).await.unwrap().unwrap().serials);
    let all = GapFilter {
        type_id: world.pool.type_id,
        reasons: vec![],
        from: None,
        to: None,
        with_closed: false,
        page: Page { after: 0, limit: 1000 },
    };
    for gap in world.store.list_gaps(&all).await.unwrap() {
        ledger.add(&gap.span.serials.collect::<Vec<_>>());
    }
    let next = world.next_serial().await;
    assert!(ledger.is_all_of(1..next), "{} of {}", ledger.len(), next - 1);
}

/// The lock is taken away between the draw and the first push, as when its holder is stopped past
/// its expiry, and another instance fills the pool meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_without_its_lock_pushes_nothing() {
    const SIZE: u64 = 200;
    let (redis, world) = (Redis::start(), Arc::new(World::new().await));
    let (slow, other) = (world.pools(&redis.url()).await, world.pools(&redis.url()).await);
    let mut ledger = Ledger::default();
    // Whoever takes the lock is robbed of it at once; the draw waits for the disk, so it is gone
    // before the first push.
    let thief = Meddler::steal(&redis, lock_key(&world), Duration::ZERO);
    until("a refill has lost its lock", async || {
        let outcome = slow.top_up(&world.pool, world.order(SIZE)).await.unwrap();
        match outcome {
            ToppedUp::Busy => {}
            // The thief was too slow this time.
            ToppedUp::Added { .. } | ToppedUp::Full { .. } => {
                ledger.add(&world.withdraw(&slow, 1000).await.unwrap());
            }
            ToppedUp::Exhausted => panic!("there is no end"),
        }
        reading(&slow, "redis_locks_lost") >= 3.0
    })
    .await;
    thief.stop();
    let level = slow.prepare(&world.pool).await.unwrap();
    assert_eq!(level, 0, "what was drawn without the lock is not in the pool");
    world.fill(&other, SIZE).await;
    assert_eq!(other.prepare(&world.pool).await.unwrap(), SIZE);
    account(&world, &mut ledger, other.as_ref()).await;
}

/// The lock is taken away in the middle of a long series of pushes, again and again, while two
/// instances refill and withdraw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lost_in_the_middle_leads_to_no_duplicate_and_no_overfull_pool() {
    const SIZE: u64 = 60_000;
    let (redis, world) = (Redis::start(), Arc::new(World::new().await));
    let pools = [world.pools(&redis.url()).await, world.pools(&redis.url()).await];
    let mut ledger = Ledger::default();
    let thief = Meddler::steal(&redis, lock_key(&world), Duration::from_millis(7));
    let lost = || pools.iter().map(|p| reading(p, "redis_locks_lost")).sum::<f64>();
    until("several refills have lost their lock in the middle", async || {
        let (one, two) = tokio::join!(
            pools[0].top_up(&world.pool, world.order(SIZE)),
            pools[1].top_up(&world.pool, world.order(SIZE)),
        );
        for outcome in [one.unwrap(), two.unwrap()] {
            if let ToppedUp::Added { level, .. } | ToppedUp::Full { level } = outcome {
                assert!(level <= SIZE, "{level}");
            }
        }
        assert!(pools[0].prepare(&world.pool).await.unwrap() <= SIZE);
        let serials = world.withdraw(&pools[1], 25_000).await.unwrap();
        ledger.add(&serials);
        lost() >= 5.0
    })
    .await;
    thief.stop();
    account(&world, &mut ledger, pools[0].as_ref()).await;
}

/// Somebody else puts 500 serials into the pool while a refill draws 600 for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_given_back() {
    const SIZE: u64 = 600;
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let list = format!("mintage:{{{}:}}:1:serials", world.pool.type_id.0);
    let meddler = Meddler::start(
        &redis,
        "if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('LLEN', KEYS[2]) == 0 then
           for serial = 1, 500 do redis.call('RPUSH', KEYS[2], 900000 + serial) end
         end",
        vec![lock_key(&world), list.clone()],
        Duration::ZERO,
    );
    until("a refill found no room", async || {
        redis.run::<()>(&format!("DEL {list}"));
        let before = world.next_serial().await;
        let outcome = pools.top_up(&world.pool, world.order(SIZE)).await.unwrap();
        let level = pools.prepare(&world.pool).await.unwrap();
        assert!(level <= SIZE, "{level} after {outcome:?}");
        if let ToppedUp::Full { .. } = outcome {
            assert_eq!(world.next_serial().await, before, "all of it is back");
            return true;
        }
        false
    })
    .await;
    meddler.stop();
}

/// A server that has no memory left takes no lock, so nothing is drawn for it.
#[tokio::test]
async fn without_memory_the_rest_can_still_leave_the_pool() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    world.fill(&pools, 1000).await;
    redis.run::<()>("CONFIG SET maxmemory 1");
    let refill = pools.top_up(&world.pool, world.order(5000)).await;
    assert!(matches!(refill, Err(StoreError::Unavailable(_))), "{refill:?}");
    assert_eq!(world.next_serial().await, 1001, "nothing was drawn");
    assert_eq!(world.withdraw(&pools, 64).await.unwrap().len(), 64);
    assert!(!pools.is_open());
    redis.run::<()>("CONFIG SET maxmemory 0");
    world.fill(&pools, 5000).await;
    assert_eq!(world.withdraw(&pools, 5000).await.unwrap(), (65..5065).collect::<Vec<_>>());
}

/// Memory runs out while a refill pushes: what was refused goes back to the counter.
#[tokio::test]
async fn memory_that_runs_out_in_the_middle_costs_nothing() {
    let (redis, world) = (Redis::start(), World::new().await);
    let pools = world.pools(&redis.url()).await;
    let used: String = redis.run("INFO memory");
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.trim().parse::<u64>().unwrap() + 1_500_000;
    redis.run::<()>(&format!("CONFIG SET maxmemory {limit}"));
    let order = world.order(1_000_000);
    let outcome = pools.top_up(&world.pool, TopUp { serials_max: 1_000_000, ..order }).await;
    let Ok(ToppedUp::Added { drawn, items, level }) = outcome else { panic!("{outcome:?}") };
    assert!(items < 1_000_000, "{items}");
    assert_eq!((drawn.end - 1, level), (items, items));
    assert_eq!(world.next_serial().await, drawn.end, "the rest is back");
    let held = world.store.open_draws(&pool_holder(1)).await.unwrap();
    assert_eq!(held.iter().map(|span| span.serials.end - span.serials.start).sum::<u64>(), items);
    redis.run::<()>("CONFIG SET maxmemory 0");
    account(&world, &mut Ledger::default(), pools.as_ref()).await;
}

/// Somebody who runs a script on the server again and again.
struct Meddler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Meddler {
    fn start(redis: &Redis, script: &'static str, keys: Vec<String>, pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(pause);
                let mut command = redis::cmd("EVAL");
                command.arg(script).arg(keys.len()).arg(&keys).exec(&mut connection).unwrap();
            }
        });
        Self { stop, thread }
    }

    /// Takes a lock away whenever there is one.
    fn steal(redis: &Redis, lock: String, pause: Duration) -> Self {
        Self::start(redis, "redis.call('DEL', KEYS[1])", vec![lock], pause)
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}
