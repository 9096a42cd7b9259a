//! Orders for batches.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use idgen::spec::SERIAL_MAX;
use storage::{Batch, BatchOrder, BatchState, Change, Ledger, Losses, Ordered, StoreError, TypeId};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, batch_order, batches_of, claim, derived, kill, make, now_is, ordered, stored, type_of,
};
use crate::support::{
    ME, SUCCESSOR, at, change, close_lost, crash, draw, gaps, held, new_sequence, open, reopen,
    sequence,
};

pub async fn an_order_draws_right_behind_earlier_draws(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let fresh = new_sequence(&*store, "fresh").await;
    assert_eq!(draw(&*store, id, 5).await, 0..5);
    assert_eq!(stored(&*store, id, 25).await.serials, 5..30);
    assert_eq!(derived(&*store, id, 3).await.serials, 30..33);
    assert_eq!(draw(&*store, id, 1).await, 33..34);
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 34)]);
    let behind = BatchOrder { bounds: (1001, SERIAL_MAX), ..batch_order(fresh, 4) };
    assert_eq!(ordered(&*store, &behind).await.serials, 1001..1005);
    assert_eq!(ordered(&*store, &behind).await.serials, 1005..1009);
}

pub async fn an_order_marks_its_type_as_used(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for (number, ledger) in [Ledger::Stored, Ledger::Derived].into_iter().enumerate() {
        let id = new_sequence(&*store, &format!("code{number}")).await;
        let before = store.catalogue_version().await.unwrap();
        ordered(&*store, &BatchOrder { ledger, ..batch_order(id, 1) }).await;
        let types = store.list_types().await.unwrap();
        assert!(types.iter().any(|known| known.id == id && known.used), "{ledger:?}");
        assert!(store.catalogue_version().await.unwrap() > before);
    }
}

/// What a batch has drawn is on record with it, so no crash loses it.
pub async fn the_serials_of_a_batch_are_never_lost(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 25).await;
    derived(&*store, id, 25).await;
    assert_eq!(held(&*store, ME).await, []);
    let store = crash(fixture, store).await;
    let Losses { gaps: lost, .. } = close_lost(&*store, SUCCESSOR, 9).await;
    assert_eq!(lost, []);
    assert_eq!(gaps(&*store, id).await, []);
    assert_eq!(now_is(&*store, batch.id).await, batch);
    make(&*store, 3, 10).await;
    assert_eq!(now_is(&*store, batch.id).await.state, BatchState::Completed);
}

pub async fn orders_and_draws_at_once_are_disjoint(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                match task % 3 {
                    0 => stored(&*store, id, 15 + task).await.serials,
                    1 => derived(&*store, id, 15 + task).await.serials,
                    _ => draw(&*store, id, 15 + task).await,
                }
            })
        })
        .collect();
    let mut drawn = Vec::new();
    for task in tasks {
        drawn.push(task.await.unwrap());
    }
    drawn.sort_by_key(|serials| serials.start);
    let mut next = 0;
    for serials in drawn {
        assert_eq!(serials.start, next);
        next = serials.end;
    }
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), next)]);
}

pub async fn an_order_that_has_no_room_changes_nothing(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let order = |count| BatchOrder { bounds: (5, 30), ..batch_order(id, count) };
    let refused = store.order_batch(&order(26)).await.unwrap();
    assert_eq!(refused, Ordered::NoRoom { drawn: 0 });
    assert_eq!(store.counters(id).await.unwrap(), []);
    assert!(!store.list_types().await.unwrap()[0].used);
    assert_eq!(ordered(&*store, &order(20)).await.serials, 5..25);
    for count in [6, SERIAL_MAX, u64::MAX] {
        let refused = store.order_batch(&order(count)).await.unwrap();
        assert_eq!(refused, Ordered::NoRoom { drawn: 20 });
    }
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 25)]);
    assert_eq!(ordered(&*store, &order(5)).await.serials, 25..30);
    let refused = store.order_batch(&order(1)).await.unwrap();
    assert_eq!(refused, Ordered::NoRoom { drawn: 25 });
    assert_eq!(batches_of(&*store, id).await.len(), 2);
}

/// Under way is what may still change: a derived batch never is, one with dead letters is.
pub async fn only_so_many_batches_are_under_way(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let other = type_of(&*store, "other", "a").await;
    let order = |type_id| BatchOrder { active_max: 2, ..batch_order(type_id, CHUNK) };
    let first = ordered(&*store, &order(a)).await;
    kill(&*store, 10).await;
    let second = ordered(&*store, &order(b)).await;
    for type_id in [a, b] {
        let refused = store.order_batch(&order(type_id)).await.unwrap();
        assert_eq!(refused, Ordered::TooManyActive { active: 2 });
        assert_eq!(store.counters(type_id).await.unwrap(), [(String::new(), CHUNK)]);
    }
    ordered(&*store, &BatchOrder { ledger: Ledger::Derived, ..order(a) }).await;
    ordered(&*store, &order(other)).await;
    store.cancel_batch(first.id, None, at(11)).await.unwrap();
    let third = ordered(&*store, &order(a)).await;
    let refused = store.order_batch(&order(b)).await.unwrap();
    assert_eq!(refused, Ordered::TooManyActive { active: 2 });
    while claim(&*store, 12).await.is_some() {}
    let refused = store.order_batch(&order(b)).await.unwrap();
    assert_eq!(refused, Ordered::TooManyActive { active: 2 }, "those that run count");
    for batch in [second, third] {
        store.cancel_batch(batch.id, None, at(13)).await.unwrap();
    }
    ordered(&*store, &order(b)).await;
}

pub async fn only_so_many_codes_are_ordered(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let other = type_of(&*store, "other", "a").await;
    let order = |type_id, count| BatchOrder { codes_max: 100, ..batch_order(type_id, count) };
    let refused = store.order_batch(&order(a, 101)).await.unwrap();
    assert_eq!(refused, Ordered::OverQuota { ordered: 0 });
    assert_eq!(store.counters(a).await.unwrap(), []);
    let first = ordered(&*store, &order(a, 60)).await;
    ordered(&*store, &BatchOrder { ledger: Ledger::Derived, ..order(b, 30) }).await;
    for count in [11, u64::MAX] {
        let refused = store.order_batch(&order(b, count)).await.unwrap();
        assert_eq!(refused, Ordered::OverQuota { ordered: 90 });
    }
    assert_eq!(store.counters(b).await.unwrap(), [(String::new(), 30)]);
    ordered(&*store, &order(other, 100)).await;
    ordered(&*store, &order(b, 10)).await;

    make(&*store, 1, 10).await;
    let made = now_is(&*store, first.id).await.made;
    store.cancel_batch(first.id, None, at(11)).await.unwrap();
    let so_far = 40 + made;
    let refused = store.order_batch(&order(a, 101 - so_far)).await.unwrap();
    assert_eq!(refused, Ordered::OverQuota { ordered: so_far });
    ordered(&*store, &order(a, 100 - so_far)).await;
}

pub async fn an_order_for_a_type_that_is_not_in_force_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let unknown = store.order_batch(&batch_order(TypeId(id.0 + 1), 1)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound("type"))), "{unknown:?}");
    draw(&*store, id, 5).await;
    let changed = change(&*store, id, &sequence("acme", "code"), &[], false).await.unwrap();
    let Change::Done(revision) = changed else { panic!("{changed:?}") };
    for stale in [0, revision + 1] {
        let order = BatchOrder { revision: stale, ..batch_order(id, 1) };
        let refused = store.order_batch(&order).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
    }
    store.remove_type(id).await.unwrap();
    let retired = store.order_batch(&BatchOrder { revision, ..batch_order(id, 1) }).await;
    assert!(matches!(retired, Err(StoreError::NotFound("type"))), "{retired:?}");
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 5)]);
    assert_eq!(batches_of(&*store, id).await, []);
}

/// Batches of a tenant have growing IDs, and no ID is that of two codes, whatever the clock says.
pub async fn the_ids_of_batches_and_codes_never_repeat(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let mut seen = HashSet::new();
    let mut last = i64::MIN;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let other = type_of(&*store, "other", "a").await;
    for seconds in [1, 1, 1, -86_400, 2] {
        for (number, type_id) in [a, b, a, other].into_iter().enumerate() {
            let (count, now) = ([1, 4095, 4096, 5000][number], at(seconds));
            let ledger = if number % 2 == 0 { Ledger::Derived } else { Ledger::Stored };
            let order = BatchOrder { now, ledger, ..batch_order(type_id, count) };
            let batch = ordered(&*store, &order).await;
            if type_id != other {
                assert!(batch.id.0 > last, "{batch:?} is not behind {last}");
                last = batch.id.code_id(count - 1);
            }
            assert!(seen.insert(batch.id.0));
            for position in 0..count {
                assert!(seen.insert(batch.id.code_id(position)), "{position} of {batch:?}");
            }
        }
        store = reopen(fixture, store).await;
    }
}

pub async fn all_fields_of_a_batch_come_back_after_reopening(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    draw(&*store, id, 5).await;
    let order = BatchOrder {
        name: Some("Spring, \u{1f337}".to_owned()),
        metadata: Some(r#"{"plant": "K'öln"}"#.to_owned()),
        notify: Some("{\"receivers\": [\"\u{1f514} 'hook'\\n\"]}".to_owned()),
        now: at(3),
        ..batch_order(id, 25)
    };
    let batch = ordered(&*store, &order).await;
    let expected = Batch {
        id: batch.id,
        type_id: id,
        serials: 5..30,
        chunk_serials: CHUNK,
        ledger: Ledger::Stored,
        state: BatchState::Queued,
        made: 0,
        abandoned: 0,
        dead_chunks: 0,
        error: None,
        name: order.name.clone(),
        metadata: order.metadata.clone(),
        notify: order.notify.clone(),
        key_id: 7,
        created_at: at(3),
        started_at: None,
        finished_at: None,
        idle_since: None,
        idle: Duration::ZERO,
        recalled: None,
    };
    assert_eq!(batch, expected);
    assert_eq!(batch.chunks(), 3);
    let store = reopen(fixture, store).await;
    assert_eq!(now_is(&*store, batch.id).await, expected);
    let store = crash(fixture, store).await;
    assert_eq!(batches_of(&*store, id).await, [expected]);
}

pub async fn a_derived_batch_is_complete_at_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let count = 1_000_000_000;
    let order = BatchOrder { ledger: Ledger::Derived, now: at(3), ..batch_order(id, count) };
    let batch = ordered(&*store, &order).await;
    assert_eq!((batch.ledger, batch.state), (Ledger::Derived, BatchState::Completed));
    assert_eq!((batch.made, batch.abandoned, batch.chunks()), (count, 0, 0));
    assert_eq!(batch.finished_at, Some(at(3)));
    assert_eq!(claim(&*store, 10).await, None);
    assert_eq!(now_is(&*store, batch.id).await, batch);
    assert_eq!(draw(&*store, id, 1).await, count..count + 1);
}

pub async fn the_same_order_again_gives_the_same_batch(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let keyed = |key: &str| BatchOrder { order_key: Some(key.to_owned()), ..batch_order(id, 7) };
    let first = ordered(&*store, &keyed("one")).await;
    assert_eq!(ordered(&*store, &keyed("one")).await, first);
    let other = ordered(&*store, &keyed("two")).await;
    assert_eq!(other.serials, first.serials.end..first.serials.end + 7);
    let without = ordered(&*store, &batch_order(id, 7)).await;
    assert_eq!(without.serials.start, other.serials.end);
    let store = reopen(fixture, store).await;
    assert_eq!(ordered(&*store, &keyed("one")).await.id, first.id);
    assert_eq!(batches_of(&*store, id).await, [first, other, without]);
}

/// What the service decides for an order may change between two tries, and what the client asks for may
/// not.
pub async fn another_order_with_the_same_key_is_refused(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (id, other) = (new_sequence(&*store, "code").await, new_sequence(&*store, "other").await);
    let order = BatchOrder {
        order_key: Some("one".to_owned()),
        name: Some("spring".to_owned()),
        metadata: Some("{}".to_owned()),
        notify: Some("[]".to_owned()),
        ..batch_order(id, 7)
    };
    let first = ordered(&*store, &order).await;
    let text = || Some("another".to_owned());
    for refused in [
        BatchOrder { count: 8, ..order.clone() },
        BatchOrder { type_id: other, ..order.clone() },
        BatchOrder { name: text(), ..order.clone() },
        BatchOrder { name: None, ..order.clone() },
        BatchOrder { metadata: text(), ..order.clone() },
        BatchOrder { notify: text(), ..order.clone() },
        BatchOrder { notify: None, ..order.clone() },
    ] {
        assert_eq!(store.order_batch(&refused).await.unwrap(), Ordered::OtherOrder, "{refused:?}");
    }
    let later = BatchOrder { chunk_serials: CHUNK + 1, now: at(9), key_id: 8, ..order };
    assert_eq!(ordered(&*store, &later).await, first);
    assert_eq!(store.counters(id).await.unwrap(), [(String::new(), 7)]);
    assert_eq!(store.counters(other).await.unwrap(), []);
    assert_eq!(batches_of(&*store, id).await, [first]);
}
