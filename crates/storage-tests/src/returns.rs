//! Serials that are given back.

use std::ops::Range;

use storage::{GapReason, GivenBack, Span, Store, StoreError, TypeId};

use crate::Fixture;
use crate::support::{
    ME, SUCCESSOR, at, draw, filled_pool, gaps, handed_out, held, lost, new_sequence, open, reopen,
    span,
};

async fn give_back(store: &dyn Store, id: TypeId, serials: Range<u64>) -> GivenBack {
    store.give_back(&span(id, serials), ME, at(5)).await.unwrap()
}

async fn next(store: &dyn Store, id: TypeId) -> u64 {
    store.counters(id).await.unwrap()[0].1
}

pub async fn the_tail_of_a_counter_goes_back_to_it(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 0..4)]).await.unwrap();
    assert_eq!(give_back(&*store, id, 4..10).await, GivenBack::ToCounter);
    assert_eq!(next(&*store, id).await, 4);
    assert_eq!(gaps(&*store, id).await, []);
    assert_eq!(lost(fixture, store).await, []);
}

pub async fn a_part_of_the_tail_goes_back(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    assert_eq!(give_back(&*store, id, 7..10).await, GivenBack::ToCounter);
    assert_eq!(next(&*store, id).await, 7);
    assert_eq!(give_back(&*store, id, 6..7).await, GivenBack::ToCounter);
    assert_eq!(next(&*store, id).await, 6);
    assert_eq!(lost(fixture, store).await, [span(id, 0..6)]);
}

pub async fn what_is_not_the_tail_becomes_a_gap(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    draw(&*store, id, 10).await;
    assert_eq!(give_back(&*store, id, 6..10).await, GivenBack::Gap);
    assert_eq!(next(&*store, id).await, 20);
    let found = gaps(&*store, id).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].span, span(id, 6..10));
    assert_eq!(found[0].reason, GapReason::PoolDiscarded);
    assert_eq!((found[0].detected_at, found[0].instance.as_str()), (at(5), ME));
    assert_eq!(lost(fixture, store).await, [span(id, 0..6), span(id, 10..20)]);
}

pub async fn what_a_draw_does_not_hold_cannot_be_given_back(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let other = new_sequence(&*store, "other").await;
    draw(&*store, id, 10).await;
    draw(&*store, id, 10).await;
    store.record_issues(&[handed_out(id, 0..4)]).await.unwrap();
    let refuse = |span: Span, instance: &'static str| {
        let store = &store;
        async move {
            let refused = store.give_back(&span, instance, at(5)).await;
            assert!(matches!(refused, Err(StoreError::NotFound("draw"))), "{span:?}: {refused:?}");
        }
    };
    // Recorded, more than is left, never drawn, nothing.
    for serials in [0..4, 3..10, 20..30, 10..10] {
        refuse(span(id, serials), ME).await;
    }
    refuse(span(other, 10..20), ME).await;
    refuse(Span { period: "2026".to_owned(), ..span(id, 10..20) }, ME).await;
    refuse(span(id, 10..20), SUCCESSOR).await;
    assert_eq!(next(&*store, id).await, 20);
    assert_eq!(gaps(&*store, id).await, []);
    give_back(&*store, id, 10..20).await;
    refuse(span(id, 10..20), ME).await;
    assert_eq!(lost(fixture, store).await, [span(id, 4..10)]);
}

pub async fn given_back_serials_are_drawn_again_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    give_back(&*store, id, 3..10).await;
    let store = reopen(fixture, store).await;
    assert_eq!(draw(&*store, id, 5).await, 3..8);
    assert_eq!(draw(&*store, id, 5).await, 8..13);
}

pub async fn draws_given_back_in_reverse_order_all_go_back(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    for _ in 0..3 {
        draw(&*store, id, 10).await;
    }
    for start in [20, 10, 0] {
        assert_eq!(give_back(&*store, id, start..start + 10).await, GivenBack::ToCounter);
    }
    assert_eq!(next(&*store, id).await, 0);
    assert_eq!(lost(fixture, store).await, []);
}

pub async fn what_a_pool_holds_goes_back_as_well(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    let pool = filled_pool(&*store, id, 10).await;
    store.hand_over(&[span(id, 8..10)], &pool, ME).await.unwrap();
    for (serials, holder) in [(8..10, pool.as_str()), (6..8, ME), (6..10, ME)] {
        let refused = store.give_back(&span(id, serials), holder, at(5)).await;
        assert!(matches!(refused, Err(StoreError::NotFound("draw"))), "{holder}: {refused:?}");
    }
    assert_eq!(give_back(&*store, id, 8..10).await, GivenBack::ToCounter);
    let back = store.give_back(&span(id, 5..8), &pool, at(5)).await.unwrap();
    assert_eq!(back, GivenBack::ToCounter);
    assert_eq!(next(&*store, id).await, 5);
    assert_eq!(held(&*store, &pool).await, [span(id, 0..5)]);
    assert_eq!(held(&*store, ME).await, []);
}
