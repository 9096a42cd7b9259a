//! Serials that are with a shared pool, and those that have left it.

use storage::{Draw, Gap, GapReason, Losses, Span, pool_holder};

use crate::Fixture;
use crate::support::{
    GRACE, ME, SUCCESSOR, at, close_lost, crash, draw, filled_pool, gaps, handed_out, held, lost,
    merged, new_sequence, open, order, reopen, span,
};

/// The gaps with a reason.
fn because(gaps: &[Gap], reason: GapReason) -> Vec<Span> {
    let chosen: Vec<_> = gaps.iter().filter(|gap| gap.reason == reason).cloned().collect();
    merged(&chosen)
}

pub async fn open_draws_are_what_a_holder_has_not_accounted_for(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    assert_eq!(held(&*store, ME).await, []);
    draw(&*store, a, 10).await;
    draw(&*store, b, 10).await;
    let this_year = Draw { period: "2026", ..order(a, 10) };
    store.draw(this_year).await.unwrap();
    store.draw(Draw { holder: "another", ..order(a, 10) }).await.unwrap();
    store.record_issues(&[handed_out(a, 0..3), handed_out(b, 4..6)]).await.unwrap();
    store.give_back(&span(b, 9..10), ME, at(2)).await.unwrap();
    let this_year = Span { period: "2026".to_owned(), ..span(a, 0..10) };
    let expected = [span(a, 3..10), this_year, span(b, 0..4), span(b, 6..9)];
    assert_eq!(held(&*store, ME).await, expected);
    assert_eq!(held(&*store, "another").await, [span(a, 10..20)]);
    assert_eq!(held(&*store, "nobody").await, []);
    let store = reopen(fixture, store).await;
    assert_eq!(held(&*store, ME).await, expected);
}

pub async fn what_leaves_a_pool_is_with_the_instance(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 20).await;
    assert_eq!(held(&*store, &pool).await, [span(id, 0..20)]);
    let parts = [0..2, 5..6, 18..20, 9..11].map(|serials| span(id, serials));
    store.hand_over(&parts, &pool, ME).await.unwrap();
    let expected = [0..2, 5..6, 9..11, 18..20].map(|serials| span(id, serials));
    assert_eq!(held(&*store, ME).await, expected);
    let left = [2..5, 6..9, 11..18].map(|serials| span(id, serials));
    assert_eq!(held(&*store, &pool).await, left);
    store.record_issues(&[handed_out(id, 0..2), handed_out(id, 9..10)]).await.unwrap();
    let expected = [5..6, 10..11, 18..20].map(|serials| span(id, serials));
    assert_eq!(held(&*store, ME).await, expected);
    assert_eq!(held(&*store, &pool).await, left);
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 20)]);
    assert_eq!(gaps(&*store, id).await, []);
}

/// Also when it is told twice, or too late.
pub async fn what_a_pool_does_not_hold_is_not_handed_over(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 10).await;
    store.draw(Draw { holder: "another", ..order(id, 10) }).await.unwrap();
    store.record_issues(&[handed_out(id, 0..2)]).await.unwrap();
    // Issued already, in the pool, another's, never drawn, nothing.
    for _ in 0..2 {
        let spans = [span(id, 1..4), span(id, 8..12), span(id, 18..30), span(id, 5..5)];
        store.hand_over(&spans, &pool, ME).await.unwrap();
        assert_eq!(held(&*store, ME).await, [span(id, 2..4), span(id, 8..10)]);
        assert_eq!(held(&*store, &pool).await, [span(id, 4..8)]);
        assert_eq!(held(&*store, "another").await, [span(id, 10..20)]);
    }
    store.hand_over(&[], &pool, ME).await.unwrap();
    let other_period = Span { period: "2026".to_owned(), ..span(id, 4..8) };
    store.hand_over(&[other_period], &pool, ME).await.unwrap();
    store.hand_over(&[span(id, 4..8)], "nobody", ME).await.unwrap();
    assert_eq!(held(&*store, &pool).await, [span(id, 4..8)]);
}

/// The log may be written before the store was told that serials had left the pool.
pub async fn issues_are_taken_off_a_pool_as_well(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 10).await;
    store.hand_over(&[span(id, 0..2)], &pool, ME).await.unwrap();
    store.record_issues(&[handed_out(id, 1..5)]).await.unwrap();
    store.hand_over(&[span(id, 1..5)], &pool, ME).await.unwrap();
    assert_eq!(held(&*store, ME).await, [span(id, 0..1)]);
    assert_eq!(held(&*store, &pool).await, [span(id, 5..10)]);
}

pub async fn closing_draws_records_what_is_still_held(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 20).await;
    store.hand_over(&[span(id, 0..4)], &pool, ME).await.unwrap();
    store.record_issues(&[handed_out(id, 8..10)]).await.unwrap();
    let spans = [span(id, 2..12), span(id, 15..16), span(id, 19..25), span(id, 3..3)];
    let reason = GapReason::PoolDiscarded;
    let closed = store.close_draws(&pool, &spans, reason, at(7)).await.unwrap();
    let expected = [4..8, 10..12, 15..16, 19..20].map(|serials| span(id, serials));
    assert_eq!(merged(&closed), expected);
    for gap in &closed {
        assert_eq!((gap.reason, gap.detected_at, &gap.instance), (reason, at(7), &pool));
    }
    assert_eq!(closed.len(), gaps(&*store, id).await.len());
    assert_eq!(store.close_draws(&pool, &spans, reason, at(8)).await.unwrap(), []);
    assert_eq!(store.close_draws("nobody", &spans, reason, at(8)).await.unwrap(), []);
    assert_eq!(store.close_draws(&pool, &[], reason, at(8)).await.unwrap(), []);
    assert_eq!(merged(&gaps(&*store, id).await), expected);
    assert_eq!(held(&*store, &pool).await, [span(id, 12..15), span(id, 16..19)]);
    assert_eq!(held(&*store, ME).await, [span(id, 0..4)]);
    let own = store.close_draws(ME, &[span(id, 1..9)], GapReason::Crash, at(9)).await.unwrap();
    assert_eq!(because(&own, GapReason::Crash), [span(id, 1..4)]);
}

/// What an instance took out of a pool goes with the instance. What is in the pool stays there as
/// long as the pool's server does; a store with one instance has lost it with the process.
pub async fn a_crash_loses_what_had_left_the_pool(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 10).await;
    store.hand_over(&[span(id, 0..3), span(id, 5..6)], &pool, ME).await.unwrap();
    store.record_issues(&[handed_out(id, 0..1)]).await.unwrap();
    let store = crash(fixture, store).await;
    let Losses { gone, gaps: found } = close_lost(&*store, SUCCESSOR, 100).await;
    assert_eq!(gone, [ME]);
    assert_eq!(because(&found, GapReason::Crash), [span(id, 1..3), span(id, 5..6)]);
    let in_pool = [span(id, 3..5), span(id, 6..10)];
    if fixture.many_instances() {
        assert_eq!(because(&found, GapReason::PoolDiscarded), []);
        assert_eq!(held(&*store, &pool).await, in_pool);
        store.record_issues(&[handed_out(id, 3..5), handed_out(id, 6..10)]).await.unwrap();
    } else {
        assert_eq!(because(&found, GapReason::PoolDiscarded), in_pool);
        assert_eq!(held(&*store, &pool).await, []);
    }
    assert_eq!(close_lost(&*store, SUCCESSOR, 101).await, Losses::default());
}

/// Somebody may just be handing out what came from the old server, so there is a time of grace. A
/// store with one instance needs none.
pub async fn a_pool_is_lost_when_its_epoch_has_ended(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let old = filled_pool(&*store, id, 10).await;
    let grace = GRACE.as_secs().cast_signed();
    if fixture.many_instances() {
        let new = pool_holder(store.pool_epoch("another server", at(1000)).await.unwrap());
        store.draw(Draw { holder: &new, ..order(id, 10) }).await.unwrap();
        assert_eq!(close_lost(&*store, ME, 1000 + grace - 1).await, Losses::default());
        assert_eq!(held(&*store, &old).await, [span(id, 0..10)]);
        store.hand_over(&[span(id, 0..2)], &old, ME).await.unwrap();
        // The old server comes back, and what is in it is dead all the same.
        store.pool_epoch("a server", at(1001)).await.unwrap();
    }
    let Losses { gone, gaps: found } = close_lost(&*store, ME, 1001 + grace).await;
    assert_eq!(gone, [""; 0], "a pool is no instance");
    let expected = if fixture.many_instances() { 2..10 } else { 0..10 };
    assert_eq!(because(&found, GapReason::PoolDiscarded), [span(id, expected)]);
    assert_eq!(because(&found, GapReason::Crash), []);
    assert_eq!(held(&*store, &old).await, []);
    assert_eq!(close_lost(&*store, ME, 1001 + grace).await, Losses::default());
    if fixture.many_instances() {
        assert_eq!(found[0].time_of_loss(), Some(at(1000)), "when the epoch ended");
        assert_eq!(merged(&close_lost(&*store, ME, 1002 + grace).await.gaps), [span(id, 10..20)]);
        assert_eq!(lost(fixture, store).await, [span(id, 0..2)]);
    }
}
