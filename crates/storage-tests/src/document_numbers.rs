//! Where the numbers of documents come from, and what becomes of those that are not used.

use std::sync::Arc;

use storage::{
    Assigned, DocumentOrder, GapReason, Issue, NewDocument, Numbers, StoreError, Verdict,
};

use crate::Fixture;
use crate::document_support::{
    counted, document, drawn, drawn_by, gaps_at, named, serial, single, told,
};
use crate::outbox_support::Outbox;
use crate::support::{
    ME, SUCCESSOR, UNBOUNDED, all_gaps, at, close_lost, gaps, handed_out, held, merged, span,
};

/// Documents in one request each.
fn some(count: usize) -> Vec<Vec<NewDocument>> {
    single((0..count).map(|number| document(&number.to_string())))
}

/// The issues that hold a serial.
async fn issues(outbox: &Outbox, serial: u64) -> Vec<Issue> {
    let found = outbox.store.find_issues(outbox.type_id, None, serial).await.unwrap();
    found.into_iter().map(|record| record.issue).collect()
}

pub async fn drawn_numbers_come_off_the_draws(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = outbox.type_id;
    outbox.draw(10).await;
    let assigned = outbox.assign(outbox.order(drawn(0..10), some(3), 5)).await;
    assert_eq!(told(&assigned), "0, 1, 2", "the first ones are used");
    assert_eq!(held(&*outbox.store, ME).await, [span(id, 3..10)]);
    let assigned = outbox.assign(outbox.order(drawn([3, 5, 8, 9]), some(3), 5)).await;
    assert_eq!(told(&assigned), "3, 5, 8");
    let left = [span(id, 4..5), span(id, 6..8), span(id, 9..10)];
    assert_eq!(held(&*outbox.store, ME).await, left);
    let outbox = outbox.crash(fixture).await;
    assert_eq!(merged(&close_lost(&*outbox.store, SUCCESSOR, 9).await.gaps), left);
    assert_eq!(outbox.draw(1).await, 10..11);
}

pub async fn the_numbers_of_documents_are_in_the_issue_log(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(5).await;
    let by = |key_id| NewDocument { key_id, ..document("1") };
    let requests = vec![vec![by(4), by(5)], vec![by(0)]];
    outbox.assign(outbox.order(drawn([0, 1, 3, 4]), requests, 5)).await;
    outbox.assign(outbox.order(counted(UNBOUNDED), single([by(6)]), 6)).await;
    for (serial, key_id, seconds) in [(0, 4, 5), (1, 5, 5), (3, 0, 5), (5, 6, 6)] {
        let found = issues(&outbox, serial).await;
        assert_eq!(found.len(), 1, "{serial}: {found:?}");
        assert!((found[0].first..=found[0].last).contains(&serial));
        assert_eq!((found[0].key_id, found[0].at_ms), (key_id, at(seconds).as_millisecond()));
    }
    for serial in [2, 4, 6] {
        assert_eq!(issues(&outbox, serial).await, []);
    }
}

pub async fn what_is_known_uses_no_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(10).await;
    outbox.assign(outbox.order(drawn(0..10), single([named("1", "a")]), 5)).await;
    let requests =
        vec![vec![named("1", "a")], vec![document("x"), named("2", "a")], vec![document("y")]];
    let assigned = outbox.assign(outbox.order(drawn(1..10), requests.clone(), 6)).await;
    assert_eq!(told(&assigned), "=N-0, refused conflict, 1");
    assert_eq!(held(&*outbox.store, ME).await, [span(outbox.type_id, 2..10)]);
    // Numbers are not even looked at where none is needed.
    let assigned = outbox.assign(outbox.order(drawn([]), requests[..2].to_vec(), 7)).await;
    assert_eq!(told(&assigned), "=N-0, refused conflict");
}

pub async fn requests_that_there_are_no_numbers_for_are_left_out(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(10).await;
    let requests = vec![
        vec![document("1"), document("2")],
        vec![document("3"), document("4")],
        vec![document("5")],
        vec![document("6")],
    ];
    let assigned = outbox.assign(outbox.order(drawn(0..3), requests.clone(), 5)).await;
    assert_eq!(told(&assigned), "0 1, no room no room, 2, no room");
    assert_eq!(held(&*outbox.store, ME).await, [span(outbox.type_id, 3..10)]);
    let assigned = outbox.assign(outbox.order(counted((0, 13)), requests, 6)).await;
    assert_eq!(told(&assigned), "10 11, no room no room, 12, no room");
    let again = outbox.assign(outbox.order(counted((0, 13)), some(1), 7)).await;
    assert_eq!(told(&again), "no room");
    assert_eq!(outbox.store.counters(outbox.type_id).await.unwrap(), [(String::new(), 13)]);
}

/// The whole step fails, and changes nothing.
pub async fn what_is_with_somebody_else_is_not_assigned(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = outbox.type_id;
    outbox.draw(30).await;
    outbox.store.hand_over(&[span(id, 20..25)], ME, "another").await.unwrap();
    outbox.store.record_issues(&[handed_out(id, 0..5)]).await.unwrap();
    outbox.assign(outbox.order(drawn(5..10), some(5), 5)).await;
    outbox.store.reserve(&outbox.reservation(10, 100, 5)).await.unwrap();
    let (draws, listed) = (held(&*outbox.store, ME).await, outbox.list().await);
    let refused: [Numbers; 7] = [
        drawn_by("another", [11, 12]),
        drawn([12, 20]),
        drawn([4, 12]),
        drawn([9, 12]),
        drawn([10, 12]),
        drawn([29, 30]),
        drawn([24, 25]),
    ];
    for numbers in refused {
        let refused = outbox.try_assign(outbox.order(numbers, some(2), 6)).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
        assert_eq!(held(&*outbox.store, ME).await, draws);
        assert_eq!(outbox.list().await, listed);
    }
    // Only those that are needed count.
    let assigned = outbox.assign(outbox.order(drawn([12, 20]), some(1), 7)).await;
    assert_eq!(told(&assigned), "12");
}

/// An instance that was taken for gone was only slow.
pub async fn a_number_that_was_not_lost_after_all_closes_its_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = outbox.type_id;
    outbox.draw(20).await;
    let outbox = outbox.crash(fixture).await;
    assert_eq!(merged(&close_lost(&*outbox.store, SUCCESSOR, 9).await.gaps), [span(id, 0..20)]);
    let late = outbox.order(drawn([5, 6, 7, 10]), some(4), 20);
    assert_eq!(told(&outbox.assign(late).await), "5, 6, 7, 10");
    let open = gaps(&*outbox.store, id).await;
    assert_eq!(merged(&open), [span(id, 0..5), span(id, 8..10), span(id, 11..20)]);
    let mut all = all_gaps(&*outbox.store, id).await;
    assert!(all.iter().all(|gap| (gap.reason, gap.detected_at) == (GapReason::Crash, at(9))));
    assert!(all.iter().all(|gap| gap.instance == ME));
    all.retain(|gap| gap.closed_at.is_some());
    assert_eq!(merged(&all), [span(id, 5..8), span(id, 10..11)]);
    assert!(all.iter().all(|gap| gap.closed_at == Some(at(20))), "both times are kept");
    for serial in [5, 7, 10] {
        let found = gaps_at(&*outbox.store, id, serial).await;
        assert_eq!(found.len(), 1, "{serial}");
        assert_eq!(found[0].closed_at, Some(at(20)));
        assert_eq!(outbox.documents_of(serial).await.len(), 1);
    }
    assert_eq!(gaps_at(&*outbox.store, id, 8).await[0].closed_at, None);
    let again = outbox.try_assign(outbox.order(drawn([6]), some(1), 21)).await;
    assert!(matches!(again, Err(StoreError::Stale)), "it has a document: {again:?}");
}

/// A gap that is closed as a whole is the same one, however wide it is.
pub async fn a_whole_gap_is_closed_under_its_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = outbox.type_id;
    outbox.draw(3000).await;
    let reason = GapReason::UntrackedLoss;
    let mut found = Vec::new();
    for lost in [span(id, 0..3), span(id, 3..3000)] {
        found.extend(outbox.store.close_draws(ME, &[lost], reason, at(9)).await.unwrap());
    }
    outbox.assign(outbox.order(drawn(0..3), some(3), 20)).await;
    let first = gaps_at(&*outbox.store, id, 1).await;
    assert_eq!((first[0].id, first[0].closed_at), (found[0].id, Some(at(20))));
    outbox.assign(outbox.order(drawn(3..3000), some(2997), 21)).await;
    assert_eq!(gaps(&*outbox.store, id).await, []);
    for serial in [3, 1026, 1027, 2000, 2999] {
        let closed = gaps_at(&*outbox.store, id, serial).await;
        assert_eq!(closed.len(), 1, "{serial}");
        assert_eq!((closed[0].reason, closed[0].closed_at), (reason, Some(at(21))));
    }
    assert_eq!(merged(&all_gaps(&*outbox.store, id).await), [span(id, 0..3000)]);
}

/// Only what nobody knew of can be found again.
pub async fn a_number_that_was_given_up_is_not_assigned(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(10).await;
    let abandoned = outbox.assign(outbox.order(drawn([0]), some(1), 5)).await;
    let Assigned::New(delivery) = &abandoned[0][0] else { panic!("{abandoned:?}") };
    let abandon = Verdict::Abandon;
    assert!(outbox.store.decide_delivery(delivery.id, abandon, at(6)).await.unwrap());
    let released = outbox.store.reserve(&outbox.reservation(1, 100, 5)).await.unwrap();
    outbox.store.release_reservation(released.id, at(6)).await.unwrap();
    outbox.store.reserve(&outbox.reservation(2, 7, 5)).await.unwrap();
    assert_eq!(outbox.store.expire_reservations(at(8), 10).await.unwrap().len(), 1);
    for serial in 0..3 {
        let refused = outbox.try_assign(outbox.order(drawn([serial]), some(1), 9)).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{serial}: {refused:?}");
        assert_eq!(gaps_at(&*outbox.store, outbox.type_id, serial).await.len(), 1);
    }
}

pub async fn the_counter_gives_numbers_in_the_step(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let bounds = (1001, 1 << 40);
    let assigned = outbox.assign(outbox.order(counted(bounds), some(3), 5)).await;
    assert_eq!(told(&assigned), "1001, 1002, 1003");
    assert_eq!(outbox.documents_of(1002).await[0].delivery.content.key, "N-1002");
    assert_eq!(outbox.draw(2).await, 1004..1006, "it is the counter of the type");
    let assigned = outbox.assign(outbox.order(counted(bounds), some(1), 5)).await;
    assert_eq!(told(&assigned), "1006");
    let in_2026 = outbox.order(counted(bounds), some(2), 5);
    let in_2026 = DocumentOrder { period: "2026".to_owned(), ..in_2026 };
    assert_eq!(told(&outbox.assign(in_2026).await), "1001, 1002");
    assert_eq!(held(&*outbox.store, ME).await, [span(outbox.type_id, 1004..1006)]);
    let outbox = outbox.crash(fixture).await;
    let lost = close_lost(&*outbox.store, SUCCESSOR, 9).await.gaps;
    assert_eq!(merged(&lost), [span(outbox.type_id, 1004..1006)]);
    let counters = outbox.store.counters(outbox.type_id).await.unwrap();
    assert_eq!(counters, [(String::new(), 1007), ("2026".to_owned(), 1003)]);
}

/// Whatever fails, the next document has the next number.
pub async fn a_step_that_fails_leaves_the_counter_alone(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.count([named("1", "a")], 5).await;
    let stale = outbox.order(counted(UNBOUNDED), some(5), 6);
    let stale = outbox.try_assign(DocumentOrder { revision: 9, ..stale }).await;
    assert!(matches!(stale, Err(StoreError::Stale)));
    let known = outbox.count([named("1", "a"), named("2", "a")], 6).await;
    assert_eq!(told(&known), "=N-0, conflict");
    let render = Arc::new(|_: std::ops::Range<u64>| vec![]);
    let unwritten = Numbers::Counter { bounds: UNBOUNDED, render };
    assert!(outbox.try_assign(outbox.order(unwritten, some(5), 6)).await.is_err());
    let outbox = outbox.crash(fixture).await;
    assert_eq!(told(&outbox.count([document("3")], 7).await), "1");
}

pub async fn numbers_that_are_taken_at_once_have_no_gaps(fixture: &dyn Fixture) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 10;
    let outbox = Outbox::open(fixture).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let outbox = outbox.clone();
            tokio::spawn(async move {
                let mut serials = Vec::new();
                for _ in 0..ROUNDS {
                    let order = outbox.order(counted((7, 1 << 40)), some(3), 5);
                    serials.extend(outbox.assign(order).await.iter().flatten().map(serial));
                }
                serials
            })
        })
        .collect();
    let mut serials = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted());
        serials.extend(own);
    }
    serials.sort_unstable();
    let expected: Vec<u64> = (7..).take(TASKS * ROUNDS * 3).collect();
    assert_eq!(serials, expected);
    let listed = outbox.list_documents(&outbox.documents()).await;
    assert_eq!(listed.len(), expected.len());
}
