//! Serials that nothing explains.

use std::sync::Arc;

use storage::{
    Draw, Gap, GapReason, IssueGroup, Reconciled, ReservationState, Span, Store, TypeId, Verdict,
};

use crate::Fixture;
use crate::batch_support::{derived, kill, make, settle, stored};
use crate::document_support::{counted, document, drawn, single};
use crate::outbox_support::Outbox;
use crate::support::{
    ME, UNBOUNDED, all_gaps, at, draw, gaps, handed_out, issue, merged, new_sequence, open, order,
    rejected, reopen, span,
};

async fn reconcile(store: &dyn Store, id: TypeId, most: u64, seconds: i64) -> Reconciled {
    store.reconcile(id, most, at(seconds)).await.unwrap()
}

/// Looks at everything, in steps of so many serials.
async fn reconcile_all(store: &dyn Store, id: TypeId, most: u64) -> (u64, Vec<Gap>) {
    let (mut serials, mut found) = (0, Vec::new());
    for _ in 0..1000 {
        let step = reconcile(store, id, most, 50).await;
        assert!(step.serials <= most);
        serials += step.serials;
        found.extend(step.found);
        if step.done {
            return (serials, found);
        }
    }
    panic!("there is no end to it");
}

/// Everything that can become of a serial, in one counter.
async fn with_everything(outbox: &Outbox) -> u64 {
    let (store, id) = (&*outbox.store, outbox.type_id);
    derived(store, id, 7).await;
    stored(store, id, 40).await;
    make(store, 1, 5).await;
    let dead = kill(store, 5).await;
    settle(store, (dead.batch, dead.number), Verdict::Abandon, 6).await;
    let cancelled = stored(store, id, 15).await;
    store.cancel_batch(cancelled.id, None, at(6)).await.unwrap();
    let start = outbox.draw(100).await.start;
    let serials = |from: u64, to: u64| start + from..start + to;
    let sparse = IssueGroup {
        span: span(id, serials(3, 12)),
        issues: vec![issue(start + 4, start + 5), issue(start + 9, start + 9)],
    };
    let issued = [handed_out(id, serials(0, 3)), sparse, rejected(id, serials(12, 20))];
    store.record_issues(&issued).await.unwrap();
    store.record_issues(&[rejected(id, serials(13, 14))]).await.unwrap();
    let lost = [span(id, serials(25, 30))];
    store.close_draws(ME, &lost, GapReason::Crash, at(5)).await.unwrap();
    let documents = single((0..4).map(|number| document(&number.to_string())));
    let numbers = drawn([26, 30, 31, 33].map(|place| start + place));
    outbox.assign(outbox.order(numbers, documents.clone(), 5)).await;
    for (place, state) in (40..).zip(ReservationState::ALL) {
        let held = store.reserve(&outbox.reservation(start + place, 100, 5)).await.unwrap();
        let (sink, now) = (outbox.receiver, at(6));
        match state {
            ReservationState::Held => {}
            ReservationState::Confirmed => {
                store.confirm_reservation(held.id, &document("1"), sink, false, now).await.unwrap();
            }
            ReservationState::Released => {
                store.release_reservation(held.id, now).await.unwrap();
            }
            ReservationState::Expired => {
                store.release_reservation(held.id, at(200)).await.unwrap();
            }
        }
    }
    outbox.assign(outbox.order(counted(UNBOUNDED), documents, 5)).await;
    store.give_back(&span(id, serials(90, 100)), ME, at(7)).await.unwrap();
    outbox.draw(5).await.end
}

pub async fn what_is_explained_is_no_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let end = with_everything(&outbox).await;
    let (store, id) = (&*outbox.store, outbox.type_id);
    let before = all_gaps(store, id).await;
    assert_eq!(reconcile_all(store, id, 9).await, (end, vec![]));
    assert_eq!(all_gaps(store, id).await, before);
    let nothing = Reconciled { serials: 0, found: vec![], done: true };
    assert_eq!(reconcile(store, id, 100, 51).await, nothing);
    assert_eq!(reconcile(store, TypeId(id.0 + 1000), 100, 51).await, nothing);
}

pub async fn what_nothing_explains_is_a_gap(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    for period in ["", "2026"] {
        store.draw(Draw { period, bounds: (1001, 1 << 40), ..order(id, 30) }).await.unwrap();
    }
    store.record_issues(&[handed_out(id, 1006..1011), rejected(id, 1020..1023)]).await.unwrap();
    fixture.lose_draws().await;
    let step = reconcile(&*store, id, 1000, 50).await;
    assert_eq!((step.serials, step.done), (60, true));
    let this_year = Span { period: "2026".to_owned(), ..span(id, 1001..1031) };
    let expected = [span(id, 1001..1006), span(id, 1011..1020), span(id, 1023..1031), this_year];
    assert_eq!(merged(&step.found), expected, "nothing before the beginning of a counter");
    for gap in &step.found {
        assert_eq!((gap.reason, gap.detected_at), (GapReason::UntrackedLoss, at(50)));
        assert_eq!((gap.closed_at, &gap.sign_off), (None, &None));
    }
    let store = reopen(fixture, store).await;
    assert_eq!(gaps(&*store, id).await, step.found);
    assert_eq!(reconcile(&*store, id, 1000, 51).await.serials, 0, "each is looked at once");
}

/// Wherever the steps begin and end, what is found is the same.
pub async fn a_step_goes_on_where_the_last_one_stopped(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut types = Vec::new();
    for most in [1, 2, 3, 7, 10, 64] {
        let id = new_sequence(&*store, &format!("order{most}")).await;
        draw(&*store, id, 40).await;
        for start in [2, 9, 20, 21, 35] {
            store.record_issues(&[handed_out(id, start..start + 3)]).await.unwrap();
        }
        types.push((id, most));
    }
    fixture.lose_draws().await;
    let first = reconcile(&*store, types[0].0, 25, 50).await;
    assert_eq!((first.serials, first.done), (25, false));
    assert_eq!(reconcile(&*store, types[0].0, 0, 50).await.serials, 0);
    let store = reopen(fixture, store).await;
    for (id, most) in types {
        let (serials, _) = reconcile_all(&*store, id, most).await;
        assert_eq!(serials, if most == 1 { 15 } else { 40 });
        let expected =
            [span(id, 0..2), span(id, 5..9), span(id, 12..20), span(id, 24..35), span(id, 38..40)];
        assert_eq!(merged(&gaps(&*store, id).await), expected, "in steps of {most}");
    }
}

pub async fn what_is_drawn_later_is_looked_at_later(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    assert_eq!(reconcile(&*store, id, 100, 50).await.serials, 10);
    draw(&*store, id, 5).await;
    let this_year = store.draw(Draw { period: "2026", ..order(id, 3) }).await.unwrap();
    assert_eq!(this_year, 0..3);
    fixture.lose_draws().await;
    let step = reconcile(&*store, id, 100, 51).await;
    assert_eq!((step.serials, step.done), (8, true));
    let this_year = Span { period: "2026".to_owned(), ..span(id, 0..3) };
    assert_eq!(merged(&step.found), [span(id, 10..15), this_year]);
}

/// Serials that went back to the counter begin a new life when they are drawn again.
pub async fn what_was_given_back_is_looked_at_again(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 10).await;
    assert_eq!(reconcile(&*store, id, 100, 50).await.serials, 10);
    store.give_back(&span(id, 4..10), ME, at(51)).await.unwrap();
    assert_eq!(draw(&*store, id, 20).await, 4..24);
    fixture.lose_draws().await;
    let step = reconcile(&*store, id, 100, 52).await;
    assert_eq!((step.serials, merged(&step.found)), (20, vec![span(id, 4..24)]));
}

/// A log that is written late takes serials off a gap of any reason.
pub async fn what_turns_up_late_is_no_gap(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let (store, id) = (&*outbox.store, outbox.type_id);
    outbox.draw(10).await;
    fixture.lose_draws().await;
    assert_eq!(merged(&reconcile(store, id, 100, 50).await.found), [span(id, 0..10)]);
    store.record_issues(&[handed_out(id, 2..4)]).await.unwrap();
    outbox.assign(outbox.order(drawn([7]), single([document("1")]), 60)).await;
    let open = [span(id, 0..2), span(id, 4..7), span(id, 8..10)];
    assert_eq!(merged(&gaps(store, id).await), open);
}

pub async fn steps_at_once_look_at_each_serial_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, 1000).await;
    fixture.lose_draws().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let (mut serials, mut found) = (0, Vec::new());
                for _ in 0..20 {
                    let step = reconcile(&*store, id, 100, 50).await;
                    assert!(step.serials > 0 || (step.done && step.found.is_empty()));
                    serials += step.serials;
                    found.extend(step.found);
                }
                (serials, found)
            })
        })
        .collect();
    let (mut serials, mut found) = (0, Vec::new());
    for task in tasks {
        let own = task.await.unwrap();
        serials += own.0;
        found.extend(own.1);
    }
    // Those who found others at work may have given up before these were done.
    while serials < 1000 {
        let step = reconcile(&*store, id, 100, 50).await;
        assert!(step.serials > 0, "{serials} serials were looked at");
        serials += step.serials;
        found.extend(step.found);
    }
    assert_eq!(serials, 1000);
    assert_eq!(merged(&found), [span(id, 0..1000)]);
    found.sort_by_key(|gap| gap.id);
    assert_eq!(gaps(&*store, id).await, found);
}

/// Ranges are read, and not numbers one by one.
pub async fn wide_ranges_are_read_at_once(fixture: &dyn Fixture) {
    const WIDE: u64 = 1 << 50;
    let store = open(fixture).await;
    let id = new_sequence(&*store, "order").await;
    draw(&*store, id, WIDE).await;
    let issued = [handed_out(id, 0..WIDE / 2), rejected(id, WIDE / 2..WIDE / 2 + 1000)];
    store.record_issues(&issued).await.unwrap();
    assert_eq!(reconcile(&*store, id, WIDE - 5, 50).await.serials, WIDE - 5);
    fixture.lose_draws().await;
    let step = reconcile(&*store, id, u64::MAX, 50).await;
    assert_eq!(merged(&step.found), [span(id, WIDE - 5..WIDE)]);
}
