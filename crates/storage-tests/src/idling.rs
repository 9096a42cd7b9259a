//! For how long batches have nothing but dead letters left to do.

use std::time::Duration;

use storage::{BatchState, Chunk, Verdict, always};

use crate::Fixture;
use crate::batch_support::{CHUNK, claimed, kill, now_is, settle, stored};
use crate::support::{at, crash, new_sequence, open};

pub async fn a_batch_is_idle_while_only_dead_letters_are_left(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    // The last chunk is a short one.
    let batch = stored(&*store, id, 2 * CHUNK + 1).await.id;
    let first = claimed(&*store, 10).await;
    assert!(store.fail_chunk(&first, "on purpose", None, at(20)).await.unwrap());
    let (second, third) = (claimed(&*store, 10).await, claimed(&*store, 10).await);
    assert!(store.finish_chunk(&second, always(at(20))).await.unwrap());
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since, now.idle), (1, None, Duration::ZERO));
    assert!(store.finish_chunk(&third, always(at(30))).await.unwrap());
    let store = crash(fixture, store).await;
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since, now.idle), (0, Some(at(30)), Duration::ZERO));

    assert!(settle(&*store, (batch, 0), Verdict::Retry, 100).await);
    let now = now_is(&*store, batch).await;
    let idle = Duration::from_secs(70);
    assert_eq!((now.to_make(), now.idle_since, now.idle), (CHUNK, None, idle));
    kill(&*store, 110).await;
    let now = now_is(&*store, batch).await;
    assert_eq!((now.idle_since, now.idle), (Some(at(110)), idle));
    assert!(settle(&*store, (batch, 0), Verdict::Abandon, 125).await);
    let now = now_is(&*store, batch).await;
    assert_eq!((now.state, now.finished_at), (BatchState::Completed, Some(at(125))));
    assert_eq!((now.idle_since, now.idle), (None, Duration::from_secs(85)));
}

/// Workers may be away for a while, or one may be gone with its chunk.
pub async fn time_in_which_nobody_works_is_idle(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 5 * CHUNK).await.id;
    let finish = async |chunk: &Chunk, seconds| {
        assert!(store.finish_chunk(chunk, always(at(seconds))).await.unwrap());
        now_is(&*store, batch).await.idle.as_secs()
    };
    let first = claimed(&*store, 10).await;
    assert_eq!(finish(&first, 12).await, 0);
    let (second, third) = (claimed(&*store, 12).await, claimed(&*store, 12).await);
    assert_eq!(finish(&third, 14).await, 0, "somebody was at it all the time");
    assert_eq!(finish(&second, 20).await, 0, "and still was");
    let fourth = claimed(&*store, 3620).await;
    assert_eq!(finish(&fourth, 3621).await, 3600);
    // What was waited for is not waited for twice.
    kill(&*store, 3622).await;
    assert!(settle(&*store, (batch, 4), Verdict::Retry, 3700).await);
    assert_eq!(now_is(&*store, batch).await.idle.as_secs(), 3678);
    let last = claimed(&*store, 3702).await;
    assert_eq!(finish(&last, 3703).await, 3680);
}

pub async fn a_batch_stays_idle_until_something_can_be_made(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK + 1).await.id;
    for seconds in [10, 20] {
        kill(&*store, seconds).await;
        assert_eq!(now_is(&*store, batch).await.idle_since, None, "one is left");
    }
    kill(&*store, 30).await;
    assert!(settle(&*store, (batch, 1), Verdict::Abandon, 40).await);
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since), (0, Some(at(30))), "two are as dead as before");
    store.cancel_batch(batch, None, at(50)).await.unwrap();
    let now = now_is(&*store, batch).await;
    assert_eq!((now.state, now.idle_since), (BatchState::Cancelled, Some(at(30))));
}
