//! Documents that are claimed as they are assigned, several in one step: a store may keep them on record
//! together, and whatever becomes of one must not concern those beside it.

use storage::{
    Delivery, DeliveryId, DeliveryState, DocumentFilter, DocumentOrder, GapReason, Next, Verdict,
};

use crate::Fixture;
use crate::document_support::{counted, document, drawn, gaps_at, new, single};
use crate::outbox_support::{CLAIM_SECONDS, Outbox, attempt, outcome, settle};
use crate::support::{UNBOUNDED, at};

/// A store in use: where a type and a sink are new, there may be more to do.
async fn open(fixture: &dyn Fixture) -> Outbox {
    let outbox = Outbox::open(fixture).await;
    outbox.add("before", 1).await;
    outbox.bring(Next::Delivered, 1).await;
    outbox
}

impl Outbox {
    /// Assigns so many documents and claims them in the same step.
    async fn set_out(&self, count: u64, seconds: i64) -> Vec<Delivery> {
        let documents = (0..count).map(|number| document(&number.to_string()));
        let order = self.order(counted(UNBOUNDED), single(documents), seconds);
        self.claimed(order, seconds).await
    }

    async fn claimed(&self, order: DocumentOrder, seconds: i64) -> Vec<Delivery> {
        let claimed_until = Some(at(seconds + CLAIM_SECONDS));
        let assigned = self.assign(DocumentOrder { claimed_until, ..order }).await;
        assigned.iter().flatten().map(|assigned| new(assigned).clone()).collect()
    }

    /// The documents in a state, the latest first, and that the receiver's list says the same.
    async fn in_state(&self, state: DeliveryState) -> Vec<DeliveryId> {
        let filter = DocumentFilter { state: Some(state), ..self.documents() };
        let found = self.list_documents(&filter).await;
        let found: Vec<_> = found.into_iter().map(|record| record.delivery.id).collect();
        let filter = storage::DeliveryFilter { state: Some(state), ..self.filter() };
        let to_receiver = self.store.deliveries(&filter).await.unwrap();
        let to_receiver: Vec<_> = to_receiver.into_iter().map(|record| record.id).collect();
        assert_eq!(to_receiver, found);
        found
    }

    async fn state_of(&self, delivery: &Delivery) -> (DeliveryState, u32) {
        let record = self.look(delivery.id).await.0;
        (record.state, record.attempts)
    }
}

fn latest_first<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> Vec<DeliveryId> {
    let mut ids: Vec<_> = deliveries.into_iter().map(|delivery| delivery.id).collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}

pub async fn documents_set_out_and_arrive_together(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    outbox.draw(5).await;
    let of_counter = outbox.set_out(5, 10).await;
    let documents = single((0..5).map(|number| document(&number.to_string())));
    let of_holder = outbox.claimed(outbox.order(drawn(1..6), documents, 10), 10).await;
    for together in [of_counter, of_holder] {
        let outbox = outbox.clone();
        for delivery in &together {
            let record = outbox.look(delivery.id).await.0;
            assert_eq!((record.state, record.attempts), (DeliveryState::Pending, 1));
            assert_eq!((record.due_at, record.last), (Some(at(10 + CLAIM_SECONDS)), None));
            assert_eq!(delivery.attempt, 1);
        }
        let pending = outbox.in_state(DeliveryState::Pending).await;
        assert!(latest_first(&together).iter().all(|id| pending.contains(id)));
        assert_eq!(outbox.claim(10, 10 + CLAIM_SECONDS - 1).await, []);
        let outcomes: Vec<_> =
            together.iter().map(|delivery| outcome(delivery, 11, Next::Delivered)).collect();
        assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [true; 5]);
        assert_eq!(settle(&*outbox.store, &outcomes, 13).await, [false; 5]);
        for delivery in &together {
            let (record, log) = outbox.look(delivery.id).await;
            assert_eq!((record.state, record.attempts), (DeliveryState::Delivered, 1));
            assert_eq!((record.due_at, record.settled_at), (None, Some(at(12))));
            assert_eq!((record.last, log), (Some(attempt(delivery, 11, None)), vec![]));
            let serial = delivery.document.as_ref().unwrap().serial;
            assert_eq!(outbox.documents_of(serial).await[0].delivery.settled_at, Some(at(12)));
        }
    }
    assert_eq!(outbox.in_state(DeliveryState::Pending).await, []);
    assert_eq!(outbox.in_state(DeliveryState::Delivered).await.len(), 11);
    assert_eq!(outbox.claim(100, 10_000).await, []);
    let outbox = outbox.crash(fixture).await;
    assert_eq!(outbox.in_state(DeliveryState::Delivered).await.len(), 11);
}

pub async fn some_that_set_out_arrive_before_others(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(6, 10).await;
    let beside = outbox.set_out(2, 10).await;
    let arrive = async |places: &[usize], seconds| {
        let outcomes: Vec<_> = places
            .iter()
            .map(|place| outcome(&together[*place], seconds, Next::Delivered))
            .collect();
        settle(&*outbox.store, &outcomes, seconds).await
    };
    assert_eq!(arrive(&[4, 1, 3], 20).await, [true; 3]);
    let on_the_way = [0, 2, 5].map(|place| &together[place]);
    let pending = latest_first(on_the_way.into_iter().chain(&beside));
    assert_eq!(outbox.in_state(DeliveryState::Pending).await, pending);
    assert_eq!(arrive(&[1, 2], 21).await, [false, true]);
    assert_eq!(arrive(&[0, 5], 22).await, [true, true]);
    for (delivery, seconds) in together.iter().zip([22, 20, 21, 20, 20, 22]) {
        assert_eq!(outbox.look(delivery.id).await.0.settled_at, Some(at(seconds)));
    }
    assert_eq!(outbox.in_state(DeliveryState::Pending).await, latest_first(&beside));
}

pub async fn what_becomes_of_one_is_no_concern_of_those_beside_it(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(5, 10).await;
    let nexts = [Next::Delivered, Next::Retry(at(30)), Next::Dead, Next::Untried];
    let outcomes: Vec<_> =
        together.iter().zip(nexts).map(|(delivery, next)| outcome(delivery, 11, next)).collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [true; 4]);
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [false; 4]);
    let mut states = Vec::new();
    for delivery in &together {
        states.push(outbox.state_of(delivery).await);
    }
    let [pending, delivered, dead, _] = DeliveryState::ALL;
    assert_eq!(states, [(delivered, 1), (pending, 1), (dead, 1), (pending, 0), (pending, 1)]);
    let serial = together[2].document.as_ref().unwrap().serial;
    let gaps = gaps_at(&*outbox.store, outbox.type_id, serial).await;
    assert_eq!(gaps.iter().map(|gap| gap.reason).collect::<Vec<_>>(), [GapReason::OutboxDlq]);
    let untried = outbox.claim_one(12).await;
    assert_eq!((untried.id, untried.attempt), (together[3].id, 1));
    let retried = outbox.claim_one(30).await;
    assert_eq!((retried.id, retried.attempt, retried.failures), (together[1].id, 2, 1));
    // The last one goes on as if nothing had happened.
    assert!(outbox.settle(&together[4], Next::Delivered, 31).await);
}

pub async fn what_set_out_and_was_not_heard_of_is_due_again(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(5, 10).await;
    assert!(outbox.settle(&together[2], Next::Delivered, 11).await);
    let outbox = outbox.crash(fixture).await;
    let end = 10 + CLAIM_SECONDS;
    assert_eq!(outbox.claim(10, end - 1).await, []);
    let first = outbox.claim(2, end).await;
    let rest = outbox.claim(10, end).await;
    let again: Vec<&Delivery> = first.iter().chain(&rest).collect();
    assert_eq!((first.len(), again.len()), (2, 4));
    for (again, lost) in again.into_iter().zip([0, 1, 3, 4].map(|place| &together[place])) {
        assert!(again.token > lost.token);
        assert_eq!(again, &Delivery { attempt: 2, token: again.token, ..lost.clone() });
        assert!(!outbox.settle(lost, Next::Delivered, end + 1).await);
        assert!(outbox.settle(again, Next::Delivered, end + 1).await);
    }
    assert_eq!(outbox.in_state(DeliveryState::Pending).await, []);
}

pub async fn a_document_on_its_way_can_be_given_up(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(4, 10).await;
    let given_up = together[1].id;
    assert!(outbox.store.decide_delivery(given_up, Verdict::Abandon, at(11)).await.unwrap());
    assert_eq!(outbox.state_of(&together[1]).await, (DeliveryState::Abandoned, 1));
    let outcomes: Vec<_> =
        together.iter().map(|delivery| outcome(delivery, 11, Next::Delivered)).collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [true, false, true, true]);
    let arrived = attempt(&together[1], 11, None);
    assert!(outbox.store.note_arrival(given_up, &arrived, at(13)).await.unwrap());
    assert_eq!(outbox.state_of(&together[1]).await, (DeliveryState::Delivered, 1));
    let serial = together[1].document.as_ref().unwrap().serial;
    let gaps = gaps_at(&*outbox.store, outbox.type_id, serial).await;
    assert!(gaps.iter().all(|gap| gap.closed_at.is_some()), "{gaps:?}");
}

pub async fn all_on_their_way_to_a_receiver_can_be_given_up(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(4, 10).await;
    assert!(outbox.settle(&together[0], Next::Delivered, 11).await);
    let given_up = outbox.store.abandon_deliveries(&outbox.tenant, outbox.receiver, at(12)).await;
    assert_eq!(given_up.unwrap(), 3);
    assert_eq!(outbox.in_state(DeliveryState::Abandoned).await, latest_first(&together[1..]));
    assert!(!outbox.settle(&together[3], Next::Delivered, 13).await);
}

pub async fn a_late_arrival_of_one_that_set_out_is_noted(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(3, 10).await;
    let arrived = attempt(&together[1], 11, None);
    let note = async || outbox.store.note_arrival(together[1].id, &arrived, at(12)).await.unwrap();
    assert!(note().await);
    assert!(!note().await);
    assert!(!outbox.settle(&together[1], Next::Delivered, 13).await);
    assert!(outbox.settle(&together[0], Next::Delivered, 13).await);
    assert!(outbox.settle(&together[2], Next::Dead, 13).await);
    // Of one that has arrived together with others it is no news either.
    let together = outbox.set_out(3, 20).await;
    let outcomes: Vec<_> =
        together.iter().map(|delivery| outcome(delivery, 21, Next::Delivered)).collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 22).await, [true; 3]);
    let again = attempt(&together[1], 21, None);
    assert!(!outbox.store.note_arrival(together[1].id, &again, at(23)).await.unwrap());
    assert_eq!(outbox.look(together[1].id).await.0.settled_at, Some(at(22)));
}

pub async fn one_of_those_that_arrived_can_be_sent_again(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(3, 10).await;
    let outcomes: Vec<_> =
        together.iter().map(|delivery| outcome(delivery, 11, Next::Delivered)).collect();
    assert_eq!(settle(&*outbox.store, &outcomes, 12).await, [true; 3]);
    let abandon = outbox.store.decide_delivery(together[1].id, Verdict::Abandon, at(13));
    assert!(!abandon.await.unwrap(), "it has arrived");
    let retry = outbox.store.decide_delivery(together[1].id, Verdict::Retry, at(14));
    assert!(retry.await.unwrap());
    assert_eq!(outbox.in_state(DeliveryState::Pending).await, [together[1].id]);
    assert_eq!(outbox.look(together[1].id).await.0.last, Some(attempt(&together[1], 11, None)));
    let again = outbox.claim_one(14).await;
    assert!(again.token > together[1].token);
    assert!(outbox.settle(&again, Next::Delivered, 15).await);
    for (delivery, seconds) in together.iter().zip([12, 15, 12]) {
        let record = outbox.look(delivery.id).await.0;
        assert_eq!(
            (record.state, record.settled_at),
            (DeliveryState::Delivered, Some(at(seconds)))
        );
    }
}

/// The order did not count when they set out, and does now.
pub async fn what_follows_those_on_their_way_waits_where_the_order_counts(fixture: &dyn Fixture) {
    let outbox = open(fixture).await;
    let together = outbox.set_out(3, 10).await;
    let later = outbox.add("later", 11).await;
    assert_eq!(outbox.claim_in_order(10, 12).await, []);
    for (delivery, seconds) in together.iter().zip([13, 14, 15]) {
        assert_eq!(outbox.claim_in_order(10, seconds).await, []);
        assert!(outbox.settle(delivery, Next::Delivered, seconds).await);
    }
    let claimed = outbox.claim_in_order(10, 16).await;
    assert_eq!(claimed.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), [later.id]);
}
