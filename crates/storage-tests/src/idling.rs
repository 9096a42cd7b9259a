//! For how long batches have nothing but dead letters left to do.

use std::time::Duration;

use storage::{BatchState, Verdict};

use crate::Fixture;
use crate::batch_support::{CHUNK, kill, make, now_is, stored};
use crate::support::{at, crash, new_sequence, open};

pub async fn a_batch_is_idle_while_only_dead_letters_are_left(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    // The last chunk is a short one.
    let batch = stored(&*store, id, 2 * CHUNK + 1).await.id;
    kill(&*store, 10).await;
    make(&*store, 1, 20).await;
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since, now.idle), (1, None, Duration::ZERO));
    make(&*store, 1, 30).await;
    let store = crash(fixture, store).await;
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since, now.idle), (0, Some(at(30)), Duration::ZERO));

    assert!(store.settle_chunk(batch, 0, Verdict::Retry, at(100)).await.unwrap());
    let now = now_is(&*store, batch).await;
    let idle = Duration::from_secs(70);
    assert_eq!((now.to_make(), now.idle_since, now.idle), (CHUNK, None, idle));
    kill(&*store, 110).await;
    let now = now_is(&*store, batch).await;
    assert_eq!((now.idle_since, now.idle), (Some(at(110)), idle));
    assert!(store.settle_chunk(batch, 0, Verdict::Abandon, at(125)).await.unwrap());
    let now = now_is(&*store, batch).await;
    assert_eq!((now.state, now.finished_at), (BatchState::Completed, Some(at(125))));
    assert_eq!((now.idle_since, now.idle), (None, Duration::from_secs(85)));
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
    assert!(store.settle_chunk(batch, 1, Verdict::Abandon, at(40)).await.unwrap());
    let now = now_is(&*store, batch).await;
    assert_eq!((now.to_make(), now.idle_since), (0, Some(at(30))), "two are as dead as before");
    store.cancel_batch(batch, None, at(50)).await.unwrap();
    let now = now_is(&*store, batch).await;
    assert_eq!((now.state, now.idle_since), (BatchState::Cancelled, Some(at(30))));
}
