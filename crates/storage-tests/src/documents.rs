//! Documents that are given numbers, and documents on record.

use std::sync::Arc;

use storage::{
    Assigned, Delivery, DeliveryState, DocumentFilter, DocumentOrder, DocumentRecord, NewDelivery,
    NewDocument, Next, StoreError, TypeId, Verdict,
};

use crate::Fixture;
use crate::batch_support::type_of;
use crate::document_support::{
    counted, document, drawn, id, key, keyed, named, new, serial, single, told,
};
use crate::outbox_support::{CLAIM_SECONDS, Outbox};
use crate::support::{ME, UNBOUNDED, at, change, held, sequence, span};

pub async fn a_document_and_its_number_are_on_record_together(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(3).await;
    let payload = "{\"a\": \"it's\\n\u{1f4c4} \\\\ '; --\"}";
    let one = NewDocument { key_id: 42, ..named(payload, "invoice 1") };
    let order = outbox.order(drawn(0..3), single([one]), 5);
    let assigned = outbox.assign(order).await;
    let delivery = new(&assigned[0][0]).clone();
    let content = NewDelivery {
        receiver: outbox.receiver,
        key: id(0),
        subject: "code".to_owned(),
        body: payload.to_owned(),
    };
    assert_eq!(delivery.content, content, "the subject is the name of the type");
    assert_eq!(delivery.document, Some(key(outbox.type_id, 0)));
    assert_eq!(delivery.created_at, at(5));
    let outbox = outbox.crash(fixture).await;
    let (record, log) = outbox.look(delivery.id).await;
    assert_eq!((&record.content, log), (&content.heading(), vec![]));
    let body = outbox.store.body_of(delivery.id).await.unwrap();
    assert_eq!(body.as_deref(), Some(payload));
    assert_eq!((record.state, record.attempts), (DeliveryState::Pending, 0));
    assert_eq!((record.due_at, record.created_at), (Some(at(5)), at(5)));
    let expected = DocumentRecord {
        key: key(outbox.type_id, 0),
        reference: Some("invoice 1".to_owned()),
        key_id: 42,
        delivery: record,
    };
    assert_eq!(outbox.documents_of(0).await, std::slice::from_ref(&expected));
    assert_eq!(outbox.list_documents(&outbox.documents()).await, [expected]);
    assert_eq!(outbox.documents_of(1).await, []);
    let claimed = outbox.claim_one(5).await;
    let token = claimed.token;
    assert_eq!(claimed, Delivery { attempt: 1, token, ..delivery });
}

/// Whoever assigns may begin to deliver at once, and nobody else does meanwhile.
pub async fn a_document_can_be_claimed_as_it_is_assigned(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let order = outbox.order(counted(UNBOUNDED), single([document("1"), document("2")]), 10);
    let claimed_until = Some(at(10 + CLAIM_SECONDS));
    let assigned = outbox.assign(DocumentOrder { claimed_until, ..order }).await;
    let [first, second] = [0, 1].map(|place| new(&assigned[place][0]).clone());
    assert_eq!((first.attempt, second.attempt), (1, 1));
    let record = outbox.look(first.id).await.0;
    assert_eq!((record.attempts, record.due_at), (1, claimed_until));
    assert_eq!(outbox.claim(10, 10 + CLAIM_SECONDS - 1).await, []);
    assert!(outbox.settle(&first, Next::Delivered, 12).await);
    let taken = outbox.claim_one(10 + CLAIM_SECONDS).await;
    assert!(taken.token > second.token);
    assert_eq!(taken, Delivery { attempt: 2, token: taken.token, ..second.clone() });
    assert!(!outbox.settle(&second, Next::Delivered, 80).await);
}

pub async fn an_assignment_marks_its_type_as_used(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let used = async || {
        let types = outbox.store.list_types().await.unwrap();
        types.iter().any(|stored| stored.id == outbox.type_id && stored.used)
    };
    assert!(!used().await);
    let refused = outbox.order(counted((0, 0)), single([document("1")]), 5);
    assert_eq!(told(&outbox.assign(refused).await), "no room");
    assert!(!used().await);
    outbox.add("1", 5).await;
    assert!(used().await);
}

pub async fn an_assignment_for_a_type_that_is_not_in_force_is_refused(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(5).await;
    let orders = || {
        [counted(UNBOUNDED), drawn(0..5)]
            .map(|numbers| outbox.order(numbers, single([named("1", "a")]), 5))
    };
    for order in orders() {
        let other = DocumentOrder { revision: 1, ..order.clone() };
        assert!(matches!(outbox.try_assign(other).await, Err(StoreError::Stale)));
        let unknown = DocumentOrder { type_id: TypeId(outbox.type_id.0 + 1000), ..order };
        assert!(matches!(outbox.try_assign(unknown).await, Err(StoreError::NotFound(_))));
    }
    change(&*outbox.store, outbox.type_id, &sequence("acme", "renamed"), &[], false).await.unwrap();
    for order in orders() {
        assert!(matches!(outbox.try_assign(order).await, Err(StoreError::Stale)));
    }
    outbox.store.remove_type(outbox.type_id).await.unwrap();
    for order in orders() {
        let retired = DocumentOrder { revision: 2, ..order };
        assert!(matches!(outbox.try_assign(retired).await, Err(StoreError::NotFound(_))));
    }
    assert_eq!(held(&*outbox.store, ME).await, [span(outbox.type_id, 0..5)]);
    assert_eq!(outbox.list_documents(&outbox.documents()).await, []);
    assert_eq!(outbox.claim(10, 1000).await, []);
}

pub async fn a_reference_has_one_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let first = outbox.count([named("1", "a")], 5).await;
    let first = new(&first[0][0]).clone();
    let outbox = outbox.crash(fixture).await;
    let known = Assigned::Known { delivery: first.id, id: id(0) };
    assert_eq!(outbox.count([named("1", "a")], 6).await, [[known]]);
    let conflict = Assigned::Conflict { id: id(0) };
    assert_eq!(outbox.count([named("2", "a")], 6).await, [[conflict]]);
    assert_eq!(told(&outbox.count([named("1", "A"), document("1")], 6).await), "1, 2");
    let other = Outbox { type_id: type_of(&*outbox.store, "acme", "other").await, ..outbox };
    assert_eq!(told(&other.count([named("3", "a")], 7).await), "0", "types do not share them");
    assert_eq!(other.claim(10, 10).await.len(), 4);
}

/// The same request, whatever type it names.
pub async fn a_request_key_has_one_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    assert_eq!(told(&outbox.count([keyed("1", "a")], 5).await), "0");
    for asked in [&outbox, &other] {
        let again = [
            keyed("1", "a"),
            keyed("2", "a"),
            NewDocument { reference: Some("new".to_owned()), ..keyed("1", "a") },
        ];
        assert_eq!(told(&asked.count(again, 6).await), "=N-0, conflict, =N-0");
    }
    let fresh = told(&other.count([named("1", "new"), keyed("1", "A")], 7).await);
    assert_eq!(fresh, "0, 1", "nothing of what was refused is on record");
}

pub async fn documents_that_come_twice_in_one_order_are_one(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let requests = vec![
        vec![named("1", "a"), named("1", "a"), keyed("2", "k")],
        vec![keyed("2", "k")],
        vec![named("3", "a")],
        vec![document("1"), document("1")],
    ];
    let assigned = outbox.assign(outbox.order(counted(UNBOUNDED), requests, 5)).await;
    assert_eq!(told(&assigned), "0 =N-0 1, =N-1, conflict, 2 3");
    assert_eq!(outbox.claim(10, 5).await.len(), 4);
}

pub async fn a_request_is_taken_whole_or_not_at_all(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.count([named("1", "a")], 5).await;
    let requests = vec![
        vec![document("x"), named("2", "a"), named("3", "b")],
        vec![named("4", "b"), named("1", "a")],
        vec![document("5")],
    ];
    let assigned = outbox.assign(outbox.order(counted(UNBOUNDED), requests, 6)).await;
    assert_eq!(told(&assigned), "refused conflict refused, 1 =N-0, 2");
    assert_eq!(outbox.store.counters(outbox.type_id).await.unwrap(), [(String::new(), 3)]);
    let mut bodies: Vec<_> =
        outbox.claim(10, 6).await.into_iter().map(|delivery| delivery.content.body).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["1", "4", "5"]);
}

pub async fn the_same_document_at_once_has_one_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let outbox = outbox.clone();
            let same = if number % 2 == 0 { named("1", "a") } else { keyed("2", "k") };
            tokio::spawn(async move { outbox.count([same], 5).await.remove(0).remove(0) })
        })
        .collect();
    let mut new = 0;
    for task in tasks {
        match task.await.unwrap() {
            Assigned::New(_) => new += 1,
            Assigned::Known { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(new, 2);
    assert_eq!(outbox.claim(10, 5).await.len(), 2);
    let counters = outbox.store.counters(outbox.type_id).await.unwrap();
    assert_eq!(counters, [(String::new(), 2)], "and no number is lost");
}

pub async fn documents_are_found_by_number_and_period(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    for period in ["", "2025", "2026"] {
        let order = outbox.order(counted((5, 100)), single([document(period)]), 5);
        outbox.assign(DocumentOrder { period: period.to_owned(), ..order }).await;
    }
    let find = async |period: Option<&str>, serial| -> Vec<String> {
        let found = outbox.store.find_documents(outbox.type_id, period, serial).await.unwrap();
        found.into_iter().map(|record| record.key.period).collect()
    };
    assert_eq!(find(None, 5).await, ["", "2025", "2026"]);
    assert_eq!(find(Some("2025"), 5).await, ["2025"]);
    assert_eq!(find(Some("2024"), 5).await, [""; 0]);
    for serial in [0, 4, 6, u64::MAX] {
        assert_eq!(find(None, serial).await, [""; 0]);
    }
    let other = outbox.store.find_documents(TypeId(outbox.type_id.0 + 1), None, 5).await.unwrap();
    assert_eq!(other, []);
}

pub async fn documents_are_listed_latest_first(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    let sink = outbox.with_receiver("another sink").await;
    assert_eq!(outbox.list_documents(&outbox.documents()).await, []);
    for seconds in 10..22 {
        let added = [&outbox, &sink][usize::from(seconds % 3 == 0)];
        let delivery = added.add(&seconds.to_string(), seconds).await;
        other.add("other", seconds).await;
        let claimed = added.claim(10, seconds).await;
        let claimed = claimed.iter().find(|claim| claim.id == delivery.id).unwrap();
        match seconds % 4 {
            0 => assert!(added.settle(claimed, Next::Delivered, seconds).await),
            1 => assert!(added.settle(claimed, Next::Dead, seconds).await),
            2 => assert!(added.settle(claimed, Next::Retry(at(10_000)), seconds).await),
            _ => {
                let abandon = Verdict::Abandon;
                let store = &outbox.store;
                assert!(store.decide_delivery(delivery.id, abandon, at(seconds)).await.unwrap());
            }
        }
    }
    let all = outbox.list_documents(&outbox.documents()).await;
    let serials: Vec<_> = all.iter().map(|record| record.key.serial).collect();
    assert_eq!(serials, (0..12).rev().collect::<Vec<_>>());
    for limit in [0, 1, 5, 100] {
        let page = DocumentFilter { limit, ..outbox.documents() };
        assert_eq!(outbox.list_documents(&page).await, all[..limit.min(12)]);
        let page = DocumentFilter { before: Some(all[3].delivery.id), ..page };
        assert_eq!(outbox.list_documents(&page).await, all[4..12.min(4 + limit)]);
    }
    for state in DeliveryState::ALL {
        let filter = DocumentFilter { state: Some(state), ..outbox.documents() };
        let mut expected = all.clone();
        expected.retain(|record| record.delivery.state == state);
        assert_eq!(expected.len(), 3);
        assert_eq!(outbox.list_documents(&filter).await, expected);
    }
}

/// A number is explained by its document for ever.
pub async fn documents_are_not_forgotten(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.put("no document", 5).await;
    outbox.bring(Next::Delivered, 5).await;
    outbox.add("1", 5).await;
    outbox.bring(Next::Delivered, 5).await;
    let abandoned = outbox.add("2", 5).await.id;
    assert!(outbox.store.decide_delivery(abandoned, Verdict::Abandon, at(6)).await.unwrap());
    assert_eq!(outbox.store.forget_deliveries(at(1_000_000), 100).await.unwrap(), 1);
    assert_eq!(outbox.store.forget_deliveries(at(1_000_000), 100).await.unwrap(), 0);
    assert_eq!(outbox.list_documents(&outbox.documents()).await.len(), 2);
    assert_eq!(outbox.list().await.len(), 2);
}

/// Large orders, and several at once.
pub async fn many_documents_are_assigned_in_one_step(fixture: &dyn Fixture) {
    const DOCUMENTS: u64 = 2_000;
    let outbox = Arc::new(Outbox::open(fixture).await);
    let tasks: Vec<_> = (0..2)
        .map(|task| {
            let outbox = Arc::clone(&outbox);
            tokio::spawn(async move {
                let one = |number: u64| named(&number.to_string(), &format!("{task} {number}"));
                let requests = vec![(0..DOCUMENTS / 2).map(one).collect()];
                outbox.assign(outbox.order(counted(UNBOUNDED), requests, 5)).await
            })
        })
        .collect();
    for task in tasks {
        let assigned = task.await.unwrap();
        let serials: Vec<_> = assigned[0].iter().map(serial).collect();
        assert!(serials.is_sorted_by(|a, b| a + 1 == *b), "those of a request follow each other");
    }
    let all = outbox.list_documents(&outbox.documents()).await;
    let mut serials: Vec<_> = all.iter().map(|record| record.key.serial).collect();
    serials.sort_unstable();
    assert_eq!(serials, (0..DOCUMENTS).collect::<Vec<_>>());
}

pub async fn dead_documents_are_listed_across_types(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    let mut types = [outbox.type_id, other_type];
    types.sort_unstable();
    let mut expected = Vec::new();
    for seconds in 10..16 {
        let added = [&outbox, &other][usize::from(seconds % 2 == 0)];
        let delivery = added.add("1", seconds).await;
        let dead = added.claim_one(seconds).await;
        let next = if seconds < 12 { Next::Delivered } else { Next::Dead };
        assert!(outbox.settle(&dead, next, seconds).await);
        if next == Next::Dead {
            expected.push((added.type_id, delivery.id));
        }
    }
    expected.sort_by_key(|(type_id, id)| (*type_id, std::cmp::Reverse(*id)));
    let list = async |types: &[TypeId], after, limit| -> Vec<_> {
        let found = outbox.store.dead_documents(types, after, limit).await.unwrap();
        found.into_iter().map(|record| (record.key.type_id, record.delivery.id)).collect()
    };
    assert_eq!(list(&types, None, 10).await, expected);
    assert_eq!(list(&types, None, 3).await, expected[..3]);
    for (place, after) in expected.iter().enumerate() {
        let from = types.iter().position(|type_id| *type_id == after.0).unwrap();
        assert_eq!(list(&types[from..], Some(*after), 10).await, expected[place + 1..]);
    }
    assert_eq!(list(&types[1..], None, 10).await, expected[2..]);
    assert_eq!(list(&[], None, 10).await, []);
}
