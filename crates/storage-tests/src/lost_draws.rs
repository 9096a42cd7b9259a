//! What a crash leaves behind, and gaps in general.

use storage::{Draw, GapFilter, GapReason, Losses, Page, Span, Store, TypeId};

use crate::Fixture;
use crate::support::{
    ME, SUCCESSOR, at, close_lost, crash, draw, gaps, handed_out, held, merged, new_sequence, open,
    open_gaps, order, rejected, reopen, span,
};

pub async fn a_crash_leaves_exactly_what_was_not_accounted_for(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    draw(&*store, a, 10).await;
    draw(&*store, a, 10).await;
    draw(&*store, b, 10).await;
    store.draw(Draw { period: "2026", ..order(a, 10) }).await.unwrap();
    store.record_issues(&[handed_out(a, 0..3), rejected(a, 3..5)]).await.unwrap();
    store.record_issues(&[handed_out(b, 0..10)]).await.unwrap();
    store.give_back(&span(a, 15..20), ME, at(2)).await.unwrap();
    let store = crash(fixture, store).await;
    let Losses { gone, gaps: found } = close_lost(&*store, SUCCESSOR, 9).await;
    assert_eq!(gone, [ME]);
    let this_year = Span { type_id: a, period: "2026".to_owned(), serials: 0..10 };
    assert_eq!(merged(&found), [span(a, 5..15), this_year]);
    for gap in &found {
        assert_eq!(gap.reason, GapReason::Crash);
        assert_eq!((gap.detected_at, gap.instance.as_str()), (at(9), ME));
        assert!(gap.time_of_loss().is_some(), "that is when it was last seen");
    }
    assert_eq!(gaps(&*store, a).await, found);
    assert_eq!(draw(&*store, a, 1).await, 15..16, "lost serials are never drawn again");
}

pub async fn a_clean_history_has_no_lost_draws(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 0..6)]).await.unwrap();
    store.give_back(&span(id, 6..10), ME, at(2)).await.unwrap();
    let store = reopen(fixture, store).await;
    assert_eq!(close_lost(&*store, SUCCESSOR, 9).await.gaps, []);
    assert_eq!(gaps(&*store, id).await, []);
}

pub async fn closing_lost_draws_twice_finds_nothing_more(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    let store = crash(fixture, store).await;
    let found = close_lost(&*store, SUCCESSOR, 9).await.gaps;
    assert_eq!(merged(&found), [span(id, 0..10)]);
    assert_eq!(close_lost(&*store, SUCCESSOR, 10).await, Losses::default());
    let store = crash(fixture, store).await;
    assert_eq!(close_lost(&*store, "third run", 11).await.gaps, []);
    assert_eq!(gaps(&*store, id).await, found);
}

pub async fn the_own_draws_of_an_instance_are_not_lost(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    assert_eq!(close_lost(&*store, ME, 9).await, Losses::default());
    store.record_issues(&[handed_out(id, 0..10)]).await.unwrap();
    assert_eq!(gaps(&*store, id).await, []);
}

/// Where several instances may live, only the draws of those that are gone are lost.
pub async fn what_another_instance_holds_is_lost_only_without_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    let Losses { gone, gaps: found } = close_lost(&*store, SUCCESSOR, 9).await;
    if fixture.many_instances() {
        assert_eq!((gone, found), (vec![], vec![]));
        assert_eq!(held(&*store, ME).await, [span(id, 0..10)]);
    } else {
        assert_eq!((gone, merged(&found)), (vec![ME.to_owned()], vec![span(id, 0..10)]));
        assert_eq!(held(&*store, ME).await, []);
    }
}

/// Two gaps, 4..10 and 14..20, in each of two periods.
async fn with_gaps(store: &dyn Store) -> TypeId {
    let id = new_sequence(store, "order").await;
    for period in ["2025", "2026"] {
        for start in [0, 10, 20] {
            store.draw(Draw { period, ..order(id, 10) }).await.unwrap();
            if start < 20 {
                continue;
            }
            for serials in [4..10, 14..20] {
                let span = Span { period: period.to_owned(), ..span(id, serials) };
                store.give_back(&span, ME, at(3)).await.unwrap();
            }
        }
    }
    id
}

pub async fn gaps_are_found_at_all_boundaries(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = with_gaps(&*store).await;
    let all = gaps(&*store, id).await;
    assert_eq!(all.len(), 4);
    for serial in (0..40).chain([u64::MAX]) {
        for period in [None, Some("2025"), Some("2026"), Some("2027"), Some("")] {
            let mut found = store.find_gaps(id, period, serial).await.unwrap();
            found.sort_by_key(|gap| gap.id);
            let holds = all.iter().filter(|gap| {
                gap.span.serials.contains(&serial) && period.is_none_or(|p| p == gap.span.period)
            });
            assert_eq!(found, holds.cloned().collect::<Vec<_>>(), "{period:?} {serial}");
        }
    }
    assert_eq!(store.find_gaps(TypeId(id.0 + 1), None, 5).await.unwrap(), []);
}

pub async fn gaps_are_listed_in_pages(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = with_gaps(&*store).await;
    let other = new_sequence(&*store, "other").await;
    draw(&*store, other, 10).await;
    draw(&*store, other, 10).await;
    store.give_back(&span(other, 0..10), ME, at(4)).await.unwrap();
    let all = gaps(&*store, id).await;
    assert!(all.is_sorted_by_key(|gap| gap.id));
    let mut listed = Vec::new();
    let mut after = 0;
    loop {
        let page = GapFilter { page: Page { after, limit: 3 }, ..open_gaps(id) };
        let page = store.list_gaps(&page).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after = last.id;
        listed.extend(page);
    }
    assert_eq!(listed, all);
    let none = GapFilter { page: Page { after: 0, limit: 0 }, ..open_gaps(id) };
    assert_eq!(store.list_gaps(&none).await.unwrap(), []);
}

pub async fn gaps_survive_a_reopening(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = with_gaps(&*store).await;
    let all = gaps(&*store, id).await;
    let store = reopen(fixture, store).await;
    assert_eq!(gaps(&*store, id).await, all);
    let store = crash(fixture, store).await;
    assert_eq!(gaps(&*store, id).await, all);
}
