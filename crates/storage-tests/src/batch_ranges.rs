//! Which batch a serial belongs to, for those who look for that of a code.

use storage::{Batch, BatchOrder, BatchRange, Ledger, Store, TypeId};

use crate::Fixture;
use crate::batch_support::{batch_order, derived, ordered, stored};
use crate::support::{at, draw, new_sequence, open};

fn range(batch: &Batch) -> BatchRange {
    BatchRange { id: batch.id, serials: batch.serials.clone(), ledger: batch.ledger }
}

/// Reads all ranges of a type, so many at a time.
async fn read_all(store: &dyn Store, type_id: TypeId, limit: usize) -> Vec<BatchRange> {
    let mut all: Vec<BatchRange> = Vec::new();
    loop {
        let from = all.last().map_or(0, |range| range.serials.end);
        let page = store.batch_ranges(type_id, from, limit).await.unwrap();
        assert!(page.len() <= limit);
        let last = page.len() < limit;
        all.extend(page);
        if last {
            return all;
        }
    }
}

pub async fn the_batches_of_a_type_are_in_order_of_serials(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let (a, b) = (new_sequence(&*store, "a").await, new_sequence(&*store, "b").await);
    let mut all = Vec::new();
    for number in 1..=4 {
        draw(&*store, a, number).await;
        all.push(range(&stored(&*store, a, 10 * number).await));
        stored(&*store, b, 1).await;
        all.push(range(&derived(&*store, a, 10 * number).await));
    }
    assert!(all.is_sorted_by(|before, next| before.serials.end <= next.serials.start));
    assert_eq!(store.batch_ranges(a, 0, 100).await.unwrap(), all);
    assert_eq!(store.batch_ranges(TypeId(b.0 + 1), 0, 100).await.unwrap(), []);
}

pub async fn what_becomes_of_a_batch_does_not_change_its_range(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let (first, second) = (stored(&*store, id, 10).await, derived(&*store, id, 10).await);
    store.cancel_batch(first.id, None, at(5)).await.unwrap().unwrap();
    store.recall_batch(second.id, "wrong label", at(5)).await.unwrap().unwrap();
    store.remove_type(id).await.unwrap();
    let expected = [range(&first), range(&second)];
    assert_eq!(store.batch_ranges(id, 0, 100).await.unwrap(), expected, "it is retired only");
}

pub async fn ranges_are_read_in_pages(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    assert_eq!(read_all(&*store, id, 1).await, []);
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(range(&derived(&*store, id, 10).await));
    }
    for limit in [1, 2, 5, 6] {
        assert_eq!(read_all(&*store, id, limit).await, all, "{limit} at a time");
    }
    let from = all[2].serials.start;
    assert_eq!(store.batch_ranges(id, from, 2).await.unwrap(), all[2..4]);
    assert_eq!(store.batch_ranges(id, from + 1, 2).await.unwrap(), all[3..5], "not in its middle");
    assert_eq!(store.batch_ranges(id, u64::MAX, 2).await.unwrap(), []);
    assert_eq!(store.batch_ranges(id, 0, 0).await.unwrap(), []);
}

pub async fn many_batches_with_much_metadata_are_read_page_by_page(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let metadata = Some(format!("{{\"note\": \"{}\"}}", "x".repeat(16_000)));
    let order = BatchOrder { ledger: Ledger::Derived, metadata, ..batch_order(id, 3) };
    let mut all = Vec::new();
    for _ in 0..1000 {
        all.push(range(&ordered(&*store, &order).await));
    }
    assert_eq!(read_all(&*store, id, 64).await, all);
}
