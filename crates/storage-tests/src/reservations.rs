//! Numbers that are held for somebody.

use storage::{
    Confirmed, Delivery, DeliveryState, GapReason, NewDocument, Reservation, ReservationId,
    ReservationOrder, ReservationState, StoreError, TypeId,
};

use crate::Fixture;
use crate::batch_support::type_of;
use crate::document_support::{document, gaps_at, id, key, keyed, named, told};
use crate::outbox_support::{Outbox, keys};
use crate::support::{ME, SUCCESSOR, at, close_lost, gaps, held, merged, span};

/// For how many seconds numbers are held.
const HOLD: i64 = 600;

/// Draws a number and holds it from a time on.
async fn reserve(outbox: &Outbox, seconds: i64) -> Reservation {
    let serial = outbox.draw(1).await.start;
    let order = outbox.reservation(serial, seconds + HOLD, seconds);
    outbox.store.reserve(&order).await.unwrap()
}

async fn now_is(outbox: &Outbox, id: ReservationId) -> Reservation {
    outbox.store.reservation(id).await.unwrap().expect("it is on record")
}

async fn confirm(
    outbox: &Outbox,
    reservation: &Reservation,
    document: &NewDocument,
    seconds: i64,
) -> Confirmed {
    let (store, sink) = (&outbox.store, outbox.receiver);
    store.confirm_reservation(reservation.id, document, sink, false, at(seconds)).await.unwrap()
}

async fn release(outbox: &Outbox, reservation: &Reservation, seconds: i64) -> Reservation {
    let released = outbox.store.release_reservation(reservation.id, at(seconds)).await.unwrap();
    released.expect("it is on record")
}

fn done(confirmed: Confirmed) -> Delivery {
    match confirmed {
        Confirmed::Done(delivery) => delivery,
        other => panic!("it has no document: {other:?}"),
    }
}

pub async fn a_number_is_held(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(5).await;
    let order = ReservationOrder { key_id: 42, ..outbox.reservation(2, 605, 5) };
    let reservation = outbox.store.reserve(&order).await.unwrap();
    let expected = Reservation {
        id: reservation.id,
        key: key(outbox.type_id, 2),
        text: id(2),
        state: ReservationState::Held,
        key_id: 42,
        expires_at: at(605),
        created_at: at(5),
    };
    assert_eq!(reservation, expected);
    let left = [span(outbox.type_id, 0..2), span(outbox.type_id, 3..5)];
    assert_eq!(held(&*outbox.store, ME).await, left);
    let outbox = outbox.crash(fixture).await;
    assert_eq!(now_is(&outbox, reservation.id).await, expected);
    assert_eq!(merged(&close_lost(&*outbox.store, SUCCESSOR, 9).await.gaps), left);
    assert_eq!(outbox.documents_of(2).await, []);
    assert_eq!(gaps_at(&*outbox.store, outbox.type_id, 2).await, []);
}

pub async fn only_what_the_holder_has_is_held(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.draw(5).await;
    outbox.store.reserve(&outbox.reservation(0, 605, 5)).await.unwrap();
    outbox
        .store
        .close_draws(ME, &[span(outbox.type_id, 1..2)], GapReason::Crash, at(5))
        .await
        .unwrap();
    let order = || outbox.reservation(3, 605, 6);
    let stale = [
        outbox.reservation(0, 605, 6),
        outbox.reservation(1, 605, 6),
        outbox.reservation(5, 605, 6),
        ReservationOrder { holder: "another".to_owned(), ..order() },
        ReservationOrder { period: "2026".to_owned(), ..order() },
        ReservationOrder { revision: 1, ..order() },
    ];
    for order in stale {
        let refused = outbox.store.reserve(&order).await;
        assert!(matches!(refused, Err(StoreError::Stale)), "{order:?}: {refused:?}");
    }
    let unknown = ReservationOrder { type_id: TypeId(outbox.type_id.0 + 1000), ..order() };
    assert!(matches!(outbox.store.reserve(&unknown).await, Err(StoreError::NotFound(_))));
    assert_eq!(held(&*outbox.store, ME).await, [span(outbox.type_id, 2..5)]);
    outbox.store.reserve(&order()).await.unwrap();
}

pub async fn a_reservation_is_found_by_its_number(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let (first, second) = (reserve(&outbox, 5).await, reserve(&outbox, 6).await);
    let released = release(&outbox, &second, 7).await;
    let find = async |period, serial| {
        outbox.store.find_reservations(outbox.type_id, period, serial).await.unwrap()
    };
    assert_eq!(find(None, first.key.serial).await, std::slice::from_ref(&first));
    assert_eq!(find(Some(""), second.key.serial).await, [released]);
    assert_eq!(find(Some("2026"), first.key.serial).await, []);
    for serial in [second.key.serial + 1, u64::MAX] {
        assert_eq!(find(None, serial).await, []);
    }
    let elsewhere = TypeId(outbox.type_id.0 + 1000);
    assert_eq!(outbox.store.find_reservations(elsewhere, None, 0).await.unwrap(), []);
}

pub async fn unknown_reservations_are_not_there(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let known = reserve(&outbox, 5).await.id;
    // The last ten bits are the shard.
    for id in [known.0 + (1 << 10), known.0 | 1023, -1, i64::MAX].map(ReservationId) {
        let (store, sink) = (&outbox.store, outbox.receiver);
        assert_eq!(store.reservation(id).await.unwrap(), None);
        assert_eq!(store.release_reservation(id, at(6)).await.unwrap(), None);
        let confirmed = store.confirm_reservation(id, &document("1"), sink, false, at(6)).await;
        assert!(matches!(confirmed, Err(StoreError::NotFound(_))), "{confirmed:?}");
    }
    assert_eq!(now_is(&outbox, known).await.state, ReservationState::Held);
}

pub async fn a_document_gets_the_number_that_is_held(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.add("0", 5).await;
    let reservation = reserve(&outbox, 5).await;
    let one = NewDocument { key_id: 42, ..named("1", "a") };
    let delivery = done(confirm(&outbox, &reservation, &one, 20).await);
    assert_eq!(delivery.document, Some(key(outbox.type_id, 1)));
    let content = &delivery.content;
    assert_eq!((content.key.as_str(), content.subject.as_str()), ("N-1", "code"));
    assert_eq!((content.body.as_str(), content.receiver), ("1", outbox.receiver));
    let outbox = outbox.crash(fixture).await;
    let expected = Reservation { state: ReservationState::Confirmed, ..reservation };
    assert_eq!(now_is(&outbox, expected.id).await, expected);
    let found = outbox.documents_of(1).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].reference.as_deref(), found[0].key_id), (Some("a"), 42));
    assert_eq!(found[0].delivery.state, DeliveryState::Pending);
    assert_eq!((found[0].delivery.due_at, found[0].delivery.created_at), (Some(at(20)), at(20)));
    assert_eq!(keys(&outbox.claim(10, 20).await), ["N-0", "N-1"]);
    let issues = outbox.store.find_issues(outbox.type_id, None, 1).await.unwrap();
    assert_eq!(issues.len(), 1);
    assert_eq!(issues[0].issue.key_id, 42);
    assert_eq!(gaps_at(&*outbox.store, outbox.type_id, 1).await, []);
    assert_eq!(outbox.store.expire_reservations(at(10_000), 10).await.unwrap(), []);
}

pub async fn the_ids_of_documents_and_reservations_are_on_record(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    outbox.add("0", 5).await;
    reserve(&outbox, 5).await;
    let numbers = [("", 1), ("", 7), ("", 0), ("2026", 0)];
    let numbers = numbers.map(|(period, serial)| (period.to_owned(), serial));
    let ids = outbox.store.written_ids(outbox.type_id, &numbers).await.unwrap();
    assert_eq!(ids, [Some("N-1".to_owned()), None, Some("N-0".to_owned()), None]);
}

/// Whoever has lost the answer asks again.
pub async fn confirming_twice_gives_the_same_document(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let reservation = reserve(&outbox, 5).await;
    let same = NewDocument { reference: Some("a".to_owned()), ..keyed("1", "k") };
    let first = done(confirm(&outbox, &reservation, &same, 20).await);
    for seconds in [21, 10_000] {
        let again = done(confirm(&outbox, &reservation, &same, seconds).await);
        assert_eq!((again.id, &again.content), (first.id, &first.content));
        assert_eq!(again.document, first.document);
        let other = confirm(&outbox, &reservation, &document("2"), seconds).await;
        assert_eq!(other, Confirmed::NotHeld(ReservationState::Confirmed));
    }
    assert_eq!(outbox.list().await.len(), 1);
}

pub async fn a_reference_of_another_number_is_in_conflict(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let reservation = reserve(&outbox, 5).await;
    outbox.count([named("1", "a"), keyed("1", "k")], 5).await;
    for (taken, by) in [(named("1", "a"), 1), (named("2", "a"), 1), (keyed("1", "k"), 2)] {
        let conflict = confirm(&outbox, &reservation, &taken, 20).await;
        assert_eq!(conflict, Confirmed::Conflict { id: id(by) });
    }
    assert_eq!(now_is(&outbox, reservation.id).await, reservation);
    assert_eq!(outbox.documents_of(0).await, []);
    // Types do not share references.
    let other_type = type_of(&*outbox.store, "acme", "other").await;
    let other = Outbox { type_id: other_type, ..outbox.clone() };
    let elsewhere = reserve(&other, 5).await;
    done(confirm(&other, &elsewhere, &named("1", "a"), 20).await);
    done(confirm(&outbox, &reservation, &named("1", "b"), 20).await);
    let known = outbox.count([named("1", "b")], 21).await;
    assert_eq!(told(&known), "=N-0");
}

pub async fn a_number_that_is_released_is_a_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let reservation = reserve(&outbox, 5).await;
    let expected = Reservation { state: ReservationState::Released, ..reservation.clone() };
    for seconds in [20, 21, 10_000] {
        assert_eq!(release(&outbox, &reservation, seconds).await, expected);
        let late = confirm(&outbox, &reservation, &document("1"), seconds).await;
        assert_eq!(late, Confirmed::NotHeld(ReservationState::Released));
    }
    let outbox = outbox.crash(fixture).await;
    assert_eq!(now_is(&outbox, reservation.id).await, expected);
    let found = gaps(&*outbox.store, outbox.type_id).await;
    assert_eq!(merged(&found), [span(outbox.type_id, 0..1)]);
    assert_eq!((found[0].reason, found[0].detected_at), (GapReason::ReservationReleased, at(20)));
    assert_eq!(found[0].time_of_loss(), Some(at(20)));
    assert_eq!(outbox.draw(1).await, 1..2, "it is never drawn again");
    let confirmed = reserve(&outbox, 30).await;
    done(confirm(&outbox, &confirmed, &document("1"), 31).await);
    assert_eq!(release(&outbox, &confirmed, 32).await.state, ReservationState::Confirmed);
    assert_eq!(gaps(&*outbox.store, outbox.type_id).await.len(), 1);
}

pub async fn a_number_that_nobody_came_for_is_a_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let mut reserved = Vec::new();
    for seconds in [0, 10, 20, 30] {
        reserved.push(reserve(&outbox, seconds).await);
    }
    done(confirm(&outbox, &reserved[1], &document("1"), 50).await);
    let expire =
        async |seconds, limit| outbox.store.expire_reservations(at(seconds), limit).await.unwrap();
    assert_eq!(expire(HOLD - 1, 10).await, []);
    assert_eq!(expire(HOLD + 25, 0).await, []);
    assert_eq!(expire(HOLD + 25, 1).await, [span(outbox.type_id, 0..1)]);
    assert_eq!(expire(HOLD + 25, 10).await, [span(outbox.type_id, 2..3)]);
    assert_eq!(expire(HOLD + 25, 10).await, []);
    let outbox = outbox.crash(fixture).await;
    let found = gaps(&*outbox.store, outbox.type_id).await;
    assert_eq!(merged(&found), [span(outbox.type_id, 0..1), span(outbox.type_id, 2..3)]);
    for (gap, over) in found.iter().zip([HOLD, HOLD + 20]) {
        let why = (gap.reason, gap.detected_at);
        assert_eq!(why, (GapReason::ReservationExpired, at(HOLD + 25)));
        assert_eq!(gap.time_of_loss(), Some(at(over)), "nobody came until then");
    }
    for (reservation, state) in reserved.iter().zip([
        ReservationState::Expired,
        ReservationState::Confirmed,
        ReservationState::Expired,
        ReservationState::Held,
    ]) {
        assert_eq!(now_is(&outbox, reservation.id).await.state, state);
    }
    let late = confirm(&outbox, &reserved[0], &document("2"), HOLD + 26).await;
    assert_eq!(late, Confirmed::NotHeld(ReservationState::Expired));
    assert_eq!(release(&outbox, &reserved[0], HOLD + 26).await.state, ReservationState::Expired);
    assert_eq!(gaps(&*outbox.store, outbox.type_id).await, found);
}

/// The time counts, not whether somebody has noticed that it has run out.
pub async fn time_runs_out_by_itself(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let (late, given_up, in_time) =
        (reserve(&outbox, 0).await, reserve(&outbox, 0).await, reserve(&outbox, 0).await);
    done(confirm(&outbox, &in_time, &document("1"), HOLD - 1).await);
    let refused = confirm(&outbox, &late, &document("2"), HOLD).await;
    assert_eq!(refused, Confirmed::NotHeld(ReservationState::Expired));
    assert_eq!(release(&outbox, &given_up, HOLD).await.state, ReservationState::Expired);
    outbox.store.expire_reservations(at(HOLD), 10).await.unwrap();
    let found = gaps(&*outbox.store, outbox.type_id).await;
    assert_eq!(merged(&found), [span(outbox.type_id, 0..2)]);
    for gap in found {
        assert_eq!((gap.reason, gap.detected_at), (GapReason::ReservationExpired, at(HOLD)));
    }
    assert_eq!(outbox.documents_of(0).await, []);
}

/// A number is a document or a gap, never both.
pub async fn who_comes_first_decides(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    for round in 0..10 {
        let reservation = reserve(&outbox, 5).await;
        let confirming = tokio::spawn({
            let (outbox, reservation) = (outbox.clone(), reservation.clone());
            async move { confirm(&outbox, &reservation, &document("1"), 20).await }
        });
        let releasing = tokio::spawn({
            let (outbox, reservation) = (outbox.clone(), reservation.clone());
            async move { release(&outbox, &reservation, 20).await }
        });
        let (confirmed, released) = (confirming.await.unwrap(), releasing.await.unwrap());
        let serial = reservation.key.serial;
        let documents = outbox.documents_of(serial).await.len();
        let gaps = gaps_at(&*outbox.store, outbox.type_id, serial).await.len();
        match confirmed {
            Confirmed::Done(_) => {
                assert_eq!(released.state, ReservationState::Confirmed);
                assert_eq!((documents, gaps), (1, 0), "round {round}");
            }
            other => {
                assert_eq!(other, Confirmed::NotHeld(ReservationState::Released));
                assert_eq!(released.state, ReservationState::Released);
                assert_eq!((documents, gaps), (0, 1), "round {round}");
            }
        }
    }
}
