//! Numbers of documents that do not arrive.

use storage::{Delivery, DeliveryId, DeliveryState, Gap, GapReason, Next, SignOff, Verdict};

use crate::Fixture;
use crate::document_support::{document, gaps_at};
use crate::outbox_support::{Outbox, attempt, outcome, settle};
use crate::support::{all_gaps, at, gaps, merged, span};

/// The gaps of the first number, as reason, time of detection and time of closing.
async fn history(outbox: &Outbox) -> Vec<(GapReason, i64, Option<i64>)> {
    let seconds = |time: jiff::Timestamp| (time.as_millisecond() - at(0).as_millisecond()) / 1000;
    let tell = |gap: Gap| {
        assert_eq!(gap.span, span(outbox.type_id, 0..1));
        (gap.reason, seconds(gap.detected_at), gap.closed_at.map(seconds))
    };
    let found = gaps_at(&*outbox.store, outbox.type_id, 0).await;
    assert_eq!(all_gaps(&*outbox.store, outbox.type_id).await, found);
    let mut open = found.clone();
    open.retain(|gap| gap.closed_at.is_none());
    assert_eq!(gaps(&*outbox.store, outbox.type_id).await, open);
    found.into_iter().map(tell).collect()
}

async fn decide(outbox: &Outbox, delivery: &Delivery, verdict: Verdict, seconds: i64) {
    assert!(outbox.store.decide_delivery(delivery.id, verdict, at(seconds)).await.unwrap());
}

pub async fn a_document_that_is_given_up_on_is_a_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.add("1", 5).await;
    outbox.bring(Next::Retry(at(20)), 10).await;
    assert_eq!(history(&outbox).await, [], "it is on its way");
    outbox.bring(Next::Dead, 20).await;
    let outbox = outbox.crash(fixture).await;
    assert_eq!(history(&outbox).await, [(GapReason::OutboxDlq, 20, None)]);
}

/// The record keeps both times.
pub async fn a_document_that_arrives_after_all_closes_its_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    outbox.bring(Next::Dead, 20).await;
    let gap = gaps_at(&*outbox.store, outbox.type_id, 0).await[0].id;
    decide(&outbox, &delivery, Verdict::Retry, 30).await;
    assert_eq!(outbox.bring(Next::Delivered, 40).await, delivery.id, "it keeps its number");
    let outbox = outbox.crash(fixture).await;
    assert_eq!(history(&outbox).await, [(GapReason::OutboxDlq, 20, Some(40))]);
    assert_eq!(gaps_at(&*outbox.store, outbox.type_id, 0).await[0].id, gap);
}

/// A slow write that succeeds after all.
pub async fn a_document_that_arrives_late_closes_its_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    outbox.bring(Next::Dead, 20).await;
    let attempt = attempt(&delivery, 19, None);
    assert!(outbox.store.note_arrival(delivery.id, &attempt, at(25)).await.unwrap());
    let outbox = outbox.crash(fixture).await;
    assert_eq!(history(&outbox).await, [(GapReason::OutboxDlq, 20, Some(25))]);
}

/// To be tried again is not to have arrived.
pub async fn a_gap_stays_until_its_document_arrives(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    outbox.bring(Next::Dead, 20).await;
    for seconds in [30, 40] {
        decide(&outbox, &delivery, Verdict::Retry, seconds).await;
        assert_eq!(history(&outbox).await, [(GapReason::OutboxDlq, 20, None)]);
        outbox.bring(Next::Retry(at(seconds)), seconds).await;
        outbox.bring(Next::Dead, seconds).await;
        assert_eq!(history(&outbox).await, [(GapReason::OutboxDlq, 20, None)], "the same one");
    }
}

pub async fn a_document_that_is_abandoned_is_a_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    decide(&outbox, &delivery, Verdict::Abandon, 10).await;
    assert_eq!(history(&outbox).await, [(GapReason::Abandoned, 10, None)]);
    decide(&outbox, &delivery, Verdict::Retry, 20).await;
    outbox.bring(Next::Delivered, 30).await;
    let outbox = outbox.crash(fixture).await;
    assert_eq!(history(&outbox).await, [(GapReason::Abandoned, 10, Some(30))]);
}

/// What somebody has accepted is not given another reason.
pub async fn another_reason_is_another_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    outbox.bring(Next::Dead, 10).await;
    let gap = gaps_at(&*outbox.store, outbox.type_id, 0).await.remove(0);
    let by = SignOff { key_id: 42, at: at(11), note: "fine".to_owned() };
    outbox.store.sign_off_gap(outbox.type_id, gap.id, &by).await.unwrap();
    decide(&outbox, &delivery, Verdict::Abandon, 20).await;
    let mut expected = vec![(GapReason::OutboxDlq, 10, Some(20)), (GapReason::Abandoned, 20, None)];
    assert_eq!(history(&outbox).await, expected);
    let found = gaps_at(&*outbox.store, outbox.type_id, 0).await;
    assert_eq!(found[0], Gap { closed_at: Some(at(20)), sign_off: Some(by), ..gap });
    assert_eq!((&found[1].sign_off, found[1].time_of_loss()), (&None, Some(at(20))));
    decide(&outbox, &delivery, Verdict::Retry, 30).await;
    outbox.bring(Next::Dead, 40).await;
    expected[1].2 = Some(40);
    expected.push((GapReason::OutboxDlq, 40, None));
    assert_eq!(history(&outbox).await, expected);
}

/// One row for all of them, and each can still arrive, or be given up, by itself.
pub async fn documents_that_are_lost_together_are_one_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.count((0..6).map(|number| document(&number.to_string())), 5).await;
    let mut claimed = outbox.claim(10, 10).await;
    claimed.sort_by_key(|delivery| delivery.id);
    let next = |place: usize| if place == 4 { Next::Delivered } else { Next::Dead };
    let outcomes: Vec<_> = claimed
        .iter()
        .enumerate()
        .map(|(place, delivery)| outcome(delivery, 10, next(place)))
        .collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 20).await, [true; 6]);
    let open = async |outbox: &Outbox| -> Vec<_> {
        let mut found = gaps(&*outbox.store, outbox.type_id).await;
        found.sort_by_key(|gap| gap.span.serials.start);
        found.into_iter().map(|gap| (gap.span.serials, gap.reason)).collect()
    };
    let dead = GapReason::OutboxDlq;
    assert_eq!(open(&outbox).await, [(0..4, dead), (5..6, dead)]);
    decide(&outbox, &claimed[1], Verdict::Retry, 30).await;
    assert_eq!(outbox.bring(Next::Delivered, 40).await, claimed[1].id);
    assert_eq!(open(&outbox).await, [(0..1, dead), (2..4, dead), (5..6, dead)]);
    decide(&outbox, &claimed[3], Verdict::Abandon, 50).await;
    let outbox = outbox.crash(fixture).await;
    let abandoned = GapReason::Abandoned;
    assert_eq!(open(&outbox).await, [(0..1, dead), (2..3, dead), (3..4, abandoned), (5..6, dead)]);
    let of_one = gaps_at(&*outbox.store, outbox.type_id, 1).await;
    assert_eq!(of_one.len(), 1);
    assert_eq!((of_one[0].detected_at, of_one[0].closed_at), (at(20), Some(at(40))));
    // A retry that fails again leaves its gap as it is.
    decide(&outbox, &claimed[2], Verdict::Retry, 60).await;
    outbox.bring(Next::Dead, 70).await;
    assert_eq!(gaps_at(&*outbox.store, outbox.type_id, 2).await[0].detected_at, at(20));
}

/// Two people decide at the same time, or a document has arrived meanwhile.
pub async fn only_dead_letters_are_decided_about(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.count((0..5).map(|number| document(&number.to_string())), 5).await;
    let mut claimed = outbox.claim(10, 10).await;
    claimed.sort_by_key(|delivery| delivery.id);
    let ids: Vec<DeliveryId> = claimed.iter().map(|delivery| delivery.id).collect();
    for (delivery, next) in
        claimed.iter().zip([Next::Delivered, Next::Dead, Next::Dead, Next::Dead])
    {
        assert!(outbox.settle(delivery, next, 11).await);
    }
    let decide = async |ids: &[DeliveryId], verdict, seconds| {
        let (store, type_id) = (&outbox.store, outbox.type_id);
        store.decide_documents(type_id, ids, verdict, at(seconds)).await.unwrap()
    };
    assert_eq!(decide(&ids[1..2], Verdict::Abandon, 20).await, ids[1..2]);
    assert_eq!(decide(&ids, Verdict::Retry, 30).await, ids[2..4]);
    assert_eq!(decide(&ids, Verdict::Abandon, 40).await, [], "these are on their way again");
    let unknown = DeliveryId::new(1 << 40, ids[0].shard());
    assert_eq!(decide(&[unknown], Verdict::Retry, 41).await, []);
    assert_eq!(decide(&[], Verdict::Retry, 42).await, []);
    let other_type = storage::TypeId(outbox.type_id.0 + 1024);
    let elsewhere = outbox.store.decide_documents(other_type, &ids, Verdict::Abandon, at(43)).await;
    assert_eq!(elsewhere.unwrap(), []);
    let states = [
        DeliveryState::Delivered,
        DeliveryState::Abandoned,
        DeliveryState::Pending,
        DeliveryState::Pending,
        DeliveryState::Pending,
    ];
    for (id, expected) in ids.iter().zip(states) {
        let (record, _) = outbox.look(*id).await;
        assert_eq!(record.state, expected, "{id:?}");
    }
    assert_eq!(outbox.look(ids[2]).await.0.attempts, 0, "with all attempts");
    assert_eq!(merged(&gaps(&*outbox.store, outbox.type_id).await), [span(outbox.type_id, 1..4)]);
    let mut again = outbox.claim(10, 50).await;
    again.sort_by_key(|delivery| delivery.id);
    for delivery in &again {
        outbox.settle(delivery, Next::Delivered, 51).await;
    }
    assert_eq!(merged(&gaps(&*outbox.store, outbox.type_id).await), [span(outbox.type_id, 1..2)]);
}

/// A document that has arrived may be sent once more, and get lost.
pub async fn a_number_can_be_missing_more_than_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let delivery = outbox.add("1", 5).await;
    outbox.bring(Next::Delivered, 10).await;
    let mut expected = Vec::new();
    for seconds in [20, 50] {
        decide(&outbox, &delivery, Verdict::Retry, seconds).await;
        assert_eq!(history(&outbox).await, expected);
        outbox.bring(Next::Dead, seconds + 1).await;
        decide(&outbox, &delivery, Verdict::Retry, seconds + 2).await;
        outbox.bring(Next::Delivered, seconds + 3).await;
        expected.push((GapReason::OutboxDlq, seconds + 1, Some(seconds + 3)));
        assert_eq!(history(&outbox).await, expected);
    }
}

pub async fn abandoning_all_that_is_pending_makes_gaps(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other = outbox.with_receiver("other").await;
    outbox.count((0..3).map(|number| document(&number.to_string())), 5).await;
    other.add("3", 5).await;
    let mut claimed = outbox.claim(10, 10).await;
    claimed.sort_by_key(|delivery| delivery.id);
    assert!(outbox.settle(&claimed[0], Next::Delivered, 11).await);
    let (store, id) = (&outbox.store, outbox.type_id);
    let abandoned = store.abandon_deliveries(&outbox.tenant, outbox.receiver, at(20)).await;
    assert_eq!(abandoned.unwrap(), 2);
    let found = gaps(&**store, id).await;
    assert_eq!(merged(&found), [span(id, 1..3)]);
    for gap in found {
        assert_eq!((gap.reason, gap.detected_at), (GapReason::Abandoned, at(20)));
    }
}

/// Nothing happens to the gap where nothing happens to the document.
pub async fn a_claim_that_is_over_changes_no_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.add("1", 5).await;
    let delivery = outbox.claim_one(10).await;
    decide(&outbox, &delivery, Verdict::Abandon, 11).await;
    for next in [Next::Delivered, Next::Dead, Next::Untried] {
        assert_eq!(settle(&*outbox.store, &[outcome(&delivery, 12, next)], 13).await, [false]);
    }
    let abandon = Verdict::Abandon;
    assert!(!outbox.store.decide_delivery(delivery.id, abandon, at(14)).await.unwrap());
    assert_eq!(history(&outbox).await, [(GapReason::Abandoned, 11, None)]);
}

pub async fn deliveries_that_are_no_documents_are_no_gaps(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("a", 5).await;
    outbox.bring(Next::Dead, 10).await;
    outbox.put("b", 5).await;
    outbox.store.abandon_deliveries(&outbox.tenant, outbox.receiver, at(20)).await.unwrap();
    assert_eq!(all_gaps(&*outbox.store, outbox.type_id).await, []);
}

/// Its sink is gone, and another one takes documents of the type.
pub async fn a_dead_document_is_tried_again_elsewhere(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.count([document("1"), document("2")], 5).await;
    let claimed = outbox.claim(10, 10).await;
    assert!(outbox.settle(&claimed[0], Next::Dead, 11).await);
    let ids: Vec<DeliveryId> = claimed.iter().map(|delivery| delivery.id).collect();
    let other = outbox.with_receiver("other").await;
    let (store, type_id, sink) = (&outbox.store, outbox.type_id, other.receiver);
    let moved = store.move_documents(type_id, &ids, sink, at(20)).await.unwrap();
    assert_eq!(moved, ids[..1], "the other one is under way");
    assert_eq!(outbox.list().await.len(), 1);
    drop(other);
    let outbox = outbox.crash(fixture).await;
    let other = Outbox { receiver: sink, ..outbox.clone() };
    let again = other.claim_one(20).await;
    assert_eq!((again.id, again.attempt, again.content.receiver), (ids[0], 1, sink));
    assert_eq!(
        (&again.content.key, &again.content.body),
        (&claimed[0].content.key, &"1".to_owned())
    );
    assert!(other.settle(&again, Next::Delivered, 21).await);
    let gaps = gaps_at(&*outbox.store, outbox.type_id, again.document.unwrap().serial).await;
    assert_eq!(gaps.iter().map(|gap| gap.closed_at).collect::<Vec<_>>(), [Some(at(21))]);
}
