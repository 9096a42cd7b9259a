//! A log that is written when its serials have already been given up.
//!
//! An instance that was cut off for long is taken for gone, and what it holds becomes gaps. When it
//! is back, what it had handed out before is known after all.

use std::sync::Arc;

use storage::{Draw, GapReason, GivenBack, IssueGroup, Span, Store, TypeId};

use crate::Fixture;
use crate::support::{
    ME, SUCCESSOR, at, close_lost, crash, draw, filled_pool, gaps, handed_out, held, issue, merged,
    new_sequence, open, order, rejected, reopen, span,
};

/// A store in which serials 0 to 19 of a type were lost by [`ME`].
async fn with_lost(fixture: &dyn Fixture) -> (Arc<dyn Store>, TypeId) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 20).await;
    let store = crash(fixture, store).await;
    assert_eq!(merged(&close_lost(&*store, SUCCESSOR, 9).await.gaps), [span(id, 0..20)]);
    (store, id)
}

/// Expects these gaps of a type and no others, in the list and in the look for each serial. Each is
/// its first serial and the first one behind it.
async fn expect_gaps(store: &dyn Store, id: TypeId, expected: &[(u64, u64)]) {
    let listed = gaps(store, id).await;
    let spans: Vec<_> = expected.iter().map(|&(start, end)| span(id, start..end)).collect();
    assert_eq!(merged(&listed), spans);
    for serial in 0..25 {
        let found = store.find_gaps(id, None, serial).await.unwrap();
        let holds = expected.iter().any(|&(start, end)| (start..end).contains(&serial));
        assert_eq!(found.len(), usize::from(holds), "{serial}: {found:?}");
    }
}

pub async fn what_was_issued_after_all_is_no_gap(fixture: &dyn Fixture) {
    let (store, id) = with_lost(fixture).await;
    for (late, expected) in [
        (0..3, vec![(3, 20)]),
        (18..20, vec![(3, 18)]),
        (8..10, vec![(3, 8), (10, 18)]),
        (10..12, vec![(3, 8), (12, 18)]),
        (12..18, vec![(3, 8)]),
        (4..5, vec![(3, 4), (5, 8)]),
        (5..8, vec![(3, 4)]),
        (3..4, vec![]),
    ] {
        // The second time is a retry.
        for _ in 0..2 {
            store.record_issues(&[handed_out(id, late.clone())]).await.unwrap();
            expect_gaps(&*store, id, &expected).await;
        }
    }
    let store = reopen(fixture, store).await;
    expect_gaps(&*store, id, &[]).await;
    for serial in [0, 8, 15, 19] {
        let found = store.find_issues(id, None, serial).await.unwrap();
        assert_eq!(found.len(), 1, "{serial}: {found:?}");
    }
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 20)]);
}

pub async fn a_whole_gap_can_vanish(fixture: &dyn Fixture) {
    let (store, id) = with_lost(fixture).await;
    store.record_issues(&[handed_out(id, 0..20)]).await.unwrap();
    expect_gaps(&*store, id, &[]).await;
    assert_eq!(close_lost(&*store, SUCCESSOR, 10).await.gaps, []);
}

/// Only what was handed out is no gap. What a filter rejects around it was given to nobody.
pub async fn serials_around_late_issues_stay_gaps(fixture: &dyn Fixture) {
    let (store, id) = with_lost(fixture).await;
    let lost_at = gaps(&*store, id).await[0].lost_at;
    let issues = vec![issue(3, 4), issue(5, 5), issue(8, 10)];
    let group = IssueGroup { span: span(id, 2..13), issues };
    store.record_issues(&[group, rejected(id, 13..16)]).await.unwrap();
    expect_gaps(&*store, id, &[(0, 3), (6, 8), (11, 20)]).await;
    for gap in gaps(&*store, id).await {
        assert_eq!((gap.reason, gap.detected_at), (GapReason::Crash, at(9)));
        assert_eq!((gap.instance.as_str(), gap.lost_at), (ME, lost_at));
    }
}

/// The numbers of gaps are places in a list that somebody may be reading.
pub async fn parts_of_a_gap_have_numbers_of_their_own(fixture: &dyn Fixture) {
    let (store, id) = with_lost(fixture).await;
    let before: Vec<_> = gaps(&*store, id).await.iter().map(|gap| gap.id).collect();
    store.record_issues(&[handed_out(id, 5..6), handed_out(id, 10..11)]).await.unwrap();
    let after = gaps(&*store, id).await;
    assert!(after.is_sorted_by(|a, b| a.id < b.id), "{after:?}");
    let first = after.iter().find(|gap| gap.span.serials.start == 0).unwrap();
    assert!(before.contains(&first.id), "the first part keeps its number");
}

pub async fn discarded_serials_can_turn_out_to_be_issued(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 10).await;
    draw(&*store, id, 10).await;
    let reason = GapReason::PoolDiscarded;
    store.close_draws(&pool, &[span(id, 0..8)], reason, at(3)).await.unwrap();
    let back = store.give_back(&span(id, 8..10), &pool, at(3)).await.unwrap();
    assert_eq!(back, GivenBack::Gap);
    expect_gaps(&*store, id, &[(0, 10)]).await;
    store.record_issues(&[handed_out(id, 2..4), handed_out(id, 7..9)]).await.unwrap();
    expect_gaps(&*store, id, &[(0, 2), (4, 7), (9, 10)]).await;
    assert!(gaps(&*store, id).await.iter().all(|gap| gap.reason == reason));
}

/// A late log touches nothing but its own serials.
pub async fn late_issues_leave_other_counters_alone(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    for id in [a, b] {
        draw(&*store, id, 20).await;
        store.draw(Draw { period: "2026", ..order(id, 20) }).await.unwrap();
    }
    let store = crash(fixture, store).await;
    close_lost(&*store, SUCCESSOR, 9).await;
    store.record_issues(&[handed_out(a, 5..10)]).await.unwrap();
    let this_year = |id| Span { period: "2026".to_owned(), ..span(id, 0..20) };
    assert_eq!(merged(&gaps(&*store, a).await), [span(a, 0..5), span(a, 10..20), this_year(a)]);
    assert_eq!(merged(&gaps(&*store, b).await), [span(b, 0..20), this_year(b)]);
}

/// Some of the serials are a gap, and some are still with an instance.
pub async fn late_issues_come_off_gaps_and_draws_together(fixture: &dyn Fixture) {
    let (store, id) = with_lost(fixture).await;
    store.draw(Draw { holder: SUCCESSOR, ..order(id, 10) }).await.unwrap();
    store.record_issues(&[handed_out(id, 15..25)]).await.unwrap();
    assert_eq!(merged(&gaps(&*store, id).await), [span(id, 0..15)]);
    assert_eq!(held(&*store, SUCCESSOR).await, [span(id, 25..30)]);
}
