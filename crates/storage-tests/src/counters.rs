//! Draws.

use std::sync::Arc;

use idgen::spec::SERIAL_MAX;
use storage::{Change, Draw, StoreError, TypeId};

use crate::Fixture;
use crate::support::{
    UNBOUNDED, change, close_lost, crash, draw, lost, new_sequence, open, order, reopen, sequence,
};

pub async fn draws_are_disjoint_and_consecutive_under_concurrency(fixture: &dyn Fixture) {
    const TASKS: u64 = 64;
    const DRAWS: u64 = 8;
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut drawn = Vec::new();
                for number in 0..DRAWS {
                    drawn.push(draw(&*store, id, 1 + (task + number) % 5).await);
                }
                drawn
            })
        })
        .collect();
    let mut drawn = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted_by(|a, b| a.end <= b.start), "a task went back: {own:?}");
        drawn.extend(own);
    }
    drawn.sort_by_key(|range| range.start);
    let mut next = 0;
    for range in drawn {
        assert_eq!(range.start, next);
        assert!(!range.is_empty());
        next = range.end;
    }
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), next)]);
}

pub async fn the_first_draw_starts_at_the_lower_bound(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    assert_eq!(store.counters(id).await.unwrap(), []);
    let order = Draw { bounds: (1001, SERIAL_MAX), ..order(id, 10) };
    assert_eq!(store.draw(order).await.unwrap(), 1001..1011);
    assert_eq!(store.draw(order).await.unwrap(), 1011..1021);
}

pub async fn a_draw_at_the_end_gives_fewer_then_none_for_ever(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let order = Draw { bounds: (5, 20), ..order(id, 10) };
    assert_eq!(store.draw(order).await.unwrap(), 5..15);
    assert_eq!(store.draw(order).await.unwrap(), 15..20);
    for _ in 0..3 {
        for _ in 0..3 {
            assert!(store.draw(order).await.unwrap().is_empty());
        }
        assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 20)]);
        store = reopen(fixture, store).await;
    }
    assert_eq!(lost(fixture, store).await.len(), 1, "an empty draw leaves nothing to account for");
}

pub async fn the_last_serial_of_all_can_be_drawn(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let order = Draw { bounds: (SERIAL_MAX - 3, SERIAL_MAX), ..order(id, u64::MAX) };
    assert_eq!(store.draw(order).await.unwrap(), SERIAL_MAX - 3..SERIAL_MAX);
    assert!(store.draw(order).await.unwrap().is_empty());
}

pub async fn empty_bounds_give_nothing_and_use_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let order = Draw { bounds: (7, 7), ..order(id, 1) };
    assert!(store.draw(order).await.unwrap().is_empty());
    assert!(!store.list_types().await.unwrap()[0].used);
}

pub async fn periods_and_types_are_separate_counters(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    for (type_id, period, expected) in [
        (a, "2026", 0..3),
        (a, "2027", 0..3),
        (b, "2026", 0..3),
        (a, "", 0..3),
        (a, "2026", 3..6),
        (b, "2026", 3..6),
    ] {
        let order = Draw { period, bounds: UNBOUNDED, ..order(type_id, 3) };
        assert_eq!(store.draw(order).await.unwrap(), expected, "{type_id:?} {period}");
    }
    let expected = [("", 3), ("2026", 6), ("2027", 3)].map(|(p, next)| (p.to_owned(), next));
    assert_eq!(store.counters(a).await.unwrap(), expected);
}

pub async fn counters_never_go_back_over_a_reopening(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    for round in 0..6 {
        assert_eq!(draw(&*store, id, 100).await, round * 100..(round + 1) * 100);
        store =
            if round % 2 == 0 { crash(fixture, store).await } else { reopen(fixture, store).await };
        assert_eq!(store.counters(id).await.unwrap(), [(String::new(), (round + 1) * 100)]);
        close_lost(&*store, &round.to_string(), 2).await;
    }
}

pub async fn a_draw_from_an_unknown_or_retired_type_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let unknown = store.draw(order(TypeId(id.0 + 1), 1)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound("type"))), "{unknown:?}");
    assert_eq!(draw(&*store, id, 1).await, 0..1);
    store.remove_type(id).await.unwrap();
    let retired = store.draw(order(id, 1)).await;
    assert!(matches!(retired, Err(StoreError::NotFound("type"))), "{retired:?}");
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 1)]);
}

/// Whoever has not heard of a change must not make IDs of what the type was before.
pub async fn a_draw_for_another_revision_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (id, other) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let order = |revision| Draw { revision, ..order(id, 5) };
    assert_eq!(store.draw(order(0)).await.unwrap(), 0..5);
    let changed = change(&*store, id, &sequence("acme", "a"), &[], false).await.unwrap();
    let Change::Done(revision) = changed else { panic!("{changed:?}") };
    for stale in [0, revision + 1, revision - 2] {
        let refused = store.draw(order(stale)).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{stale}: {refused:?}");
    }
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 5)]);
    assert_eq!(store.draw(order(revision)).await.unwrap(), 5..10);
    assert_eq!(draw(&*store, other, 1).await, 0..1, "the change was another type's");
    store.remove_type(id).await.unwrap();
    for revision in [0, revision, revision + 1] {
        let retired = store.draw(order(revision)).await;
        assert!(matches!(retired, Err(StoreError::NotFound("type"))), "{retired:?}");
    }
}
