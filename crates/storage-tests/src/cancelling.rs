//! Batches that were stopped.

use storage::{Batch, BatchState, GapReason, Verdict, Void, always};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, claim, claimed, code, dead, derived, gaps_because, kill, make, now_is, settle, stored,
};
use crate::support::{at, crash, draw, gaps, new_sequence, open};

pub async fn what_was_not_made_becomes_a_gap(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    draw(&*store, id, 5).await;
    let batch = stored(&*store, id, 58).await;
    make(&*store, 1, 10).await;
    let running = claimed(&*store, 10).await;
    make(&*store, 1, 10).await;
    for number in [3, 4] {
        assert_eq!(kill(&*store, 13).await.number, number);
    }
    assert!(settle(&*store, (batch.id, 3), Verdict::Abandon, 14).await);
    let cancelled = store.cancel_batch(batch.id, None, at(15)).await.unwrap().unwrap();
    let expected = Batch {
        state: BatchState::Cancelled,
        made: 20,
        abandoned: 10,
        error: Some("on purpose".to_owned()),
        started_at: Some(at(10)),
        finished_at: Some(at(15)),
        ..batch
    };
    assert_eq!(cancelled, expected);
    assert!(!store.finish_chunk(&running, always(at(16))).await.unwrap());
    assert!(!store.fail_chunk(&running, "late", Some(at(16)), at(16)).await.unwrap());
    let store = crash(fixture, store).await;
    assert_eq!(now_is(&*store, expected.id).await, expected);
    assert_eq!(claim(&*store, 10_000).await, None);
    assert_eq!(dead(&*store).await, []);
    assert!(!settle(&*store, (expected.id, 4), Verdict::Retry, 16).await);
    // The batch is 5..63; chunks 0 and 2 are made, 3 was given up before.
    let found = gaps_because(&*store, id, GapReason::BatchCancelled).await;
    assert_eq!(found, [(15, 25), (45, 63)]);
    assert_eq!(gaps_because(&*store, id, GapReason::Abandoned).await, [(35, 45)]);
    for gap in gaps(&*store, id).await {
        let since = if gap.reason == GapReason::Abandoned { at(14) } else { at(15) };
        assert_eq!(gap.detected_at, since);
    }
    for (position, made) in
        [(0, true), (9, true), (10, false), (20, true), (30, false), (57, false)]
    {
        let status = store.code(&code(&expected, position)).await.unwrap();
        assert_eq!(status.is_some(), made, "{position}");
    }
}

pub async fn a_queued_batch_is_cancelled_whole(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let (batch, other) = (stored(&*store, id, 25).await, stored(&*store, id, 25).await);
    let cancelled = store.cancel_batch(batch.id, None, at(10)).await.unwrap().unwrap();
    let (state, finished_at) = (BatchState::Cancelled, Some(at(10)));
    assert_eq!(cancelled, Batch { state, finished_at, ..batch });
    assert_eq!(gaps_because(&*store, id, GapReason::BatchCancelled).await, [(0, 25)]);
    assert_eq!(claimed(&*store, 11).await.batch, other.id);
    assert_eq!(stored(&*store, id, 1).await.serials, 50..51, "no serial comes back");
}

pub async fn cancelling_twice_changes_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 3 * CHUNK).await;
    make(&*store, 1, 9).await;
    let first = store.cancel_batch(batch.id, None, at(10)).await.unwrap();
    let found = gaps(&*store, id).await;
    assert_eq!(store.cancel_batch(batch.id, None, at(20)).await.unwrap(), first);
    assert_eq!(gaps(&*store, id).await, found);
}

pub async fn a_complete_batch_cannot_be_cancelled(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let made = stored(&*store, id, 2 * CHUNK).await;
    make(&*store, 2, 9).await;
    for batch in [made, derived(&*store, id, 5).await] {
        let before = now_is(&*store, batch.id).await;
        assert_eq!(before.state, BatchState::Completed);
        let late = store.cancel_batch(batch.id, Some("too late"), at(10)).await.unwrap();
        assert_eq!(late, Some(before));
    }
    assert_eq!(gaps(&*store, id).await, []);
}

pub async fn with_a_reason_what_was_made_is_void(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let (batch, other) = (stored(&*store, id, 25).await, stored(&*store, id, 25).await);
    make(&*store, 1, 9).await;
    let cancel = async |id, reason, seconds| {
        store.cancel_batch(id, reason, at(seconds)).await.unwrap().unwrap()
    };
    let void = |reason: &str, seconds| Some(Void { at: at(seconds), reason: reason.to_owned() });
    let cancelled = cancel(batch.id, Some("misprint"), 10).await;
    assert_eq!((cancelled.state, cancelled.made), (BatchState::Cancelled, CHUNK));
    assert_eq!(cancelled.recalled, void("misprint", 10));
    assert_eq!(cancel(batch.id, Some("stolen"), 11).await, cancelled, "the first reason stays");

    let kept = cancel(other.id, None, 12).await;
    assert_eq!(kept.recalled, None);
    let recalled = void("stolen", 13);
    assert_eq!(cancel(other.id, Some("stolen"), 13).await, Batch { recalled, ..kept });
    let store = crash(fixture, store).await;
    assert_eq!(now_is(&*store, batch.id).await, cancelled);
    let status = store.code(&code(&cancelled, 0)).await.unwrap().unwrap();
    assert_eq!(status.void, void("misprint", 10));
}
