//! Gaps on record: what is listed and counted, and what somebody has accepted.

use storage::{Gap, GapFilter, GapReason, GapTotals, Page, SignOff, Store, TypeId};

use crate::Fixture;
use crate::document_support::{document, drawn, gaps_at, single};
use crate::outbox_support::Outbox;
use crate::support::{
    ME, all_gaps, at, gaps, handed_out, merged, new_sequence, open, open_gaps, reopen, span,
};

/// A type with gaps of several reasons: 0..10, 20..21, 30..35 and 40..50, and a closed one at 25.
async fn with_gaps(outbox: &Outbox) -> TypeId {
    let (store, id) = (&outbox.store, outbox.type_id);
    outbox.draw(60).await;
    for (serials, reason) in [
        (0..10, GapReason::Crash),
        (20..21, GapReason::PoolDiscarded),
        (25..26, GapReason::UntrackedLoss),
        (30..35, GapReason::UntrackedLoss),
        (40..50, GapReason::Crash),
    ] {
        store.close_draws(ME, &[span(id, serials)], reason, at(5)).await.unwrap();
    }
    outbox.assign(outbox.order(drawn([25]), single([document("1")]), 6)).await;
    id
}

/// The first serials of gaps.
fn starts(gaps: &[Gap]) -> Vec<u64> {
    gaps.iter().map(|gap| gap.span.serials.start).collect()
}

/// Expects gaps that begin with these serials, in the list and in the totals.
async fn expect(store: &dyn Store, filter: &GapFilter, expected: &[u64]) {
    let listed = store.list_gaps(filter).await.unwrap();
    assert_eq!(starts(&listed), expected, "{filter:?}");
    let widths = listed.iter().map(|gap| gap.span.serials.end - gap.span.serials.start);
    let totals = GapTotals { gaps: expected.len() as u64, serials: widths.sum() };
    assert_eq!(store.count_gaps(filter).await.unwrap(), totals, "{filter:?}");
}

pub async fn gaps_are_listed_by_reason(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let because = |reasons: &[GapReason]| GapFilter { reasons: reasons.to_vec(), ..open_gaps(id) };
    let store = &*outbox.store;
    expect(store, &because(&[]), &[0, 20, 30, 40]).await;
    expect(store, &because(&GapReason::ALL), &[0, 20, 30, 40]).await;
    expect(store, &because(&[GapReason::Crash]), &[0, 40]).await;
    let two = because(&[GapReason::PoolDiscarded, GapReason::UntrackedLoss]);
    expect(store, &two, &[20, 30]).await;
    expect(store, &GapFilter { with_closed: true, ..two }, &[20, 25, 30]).await;
    expect(store, &because(&[GapReason::Abandoned]), &[]).await;
    expect(store, &open_gaps(TypeId(id.0 + 1000)), &[]).await;
}

pub async fn gaps_are_listed_by_serial(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let between = |from, to| GapFilter { from, to, ..open_gaps(id) };
    let store = &*outbox.store;
    let cases: [(Option<u64>, Option<u64>, &[u64]); 12] = [
        (Some(0), None, &[0, 20, 30, 40]),
        (Some(9), None, &[0, 20, 30, 40]),
        (Some(10), None, &[20, 30, 40]),
        (Some(34), None, &[30, 40]),
        (Some(35), None, &[40]),
        (Some(50), None, &[]),
        (Some(u64::MAX), None, &[]),
        (None, Some(0), &[0]),
        (None, Some(19), &[0]),
        (None, Some(20), &[0, 20]),
        (None, Some(u64::MAX), &[0, 20, 30, 40]),
        (Some(20), Some(30), &[20, 30]),
    ];
    for (from, to, expected) in cases {
        expect(store, &between(from, to), expected).await;
    }
    expect(store, &GapFilter { with_closed: true, ..between(Some(25), Some(25)) }, &[25]).await;
    expect(store, &between(Some(25), Some(25)), &[]).await;
}

pub async fn closed_gaps_are_listed_where_they_are_asked_for(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let store = reopen(fixture, outbox.store).await;
    expect(&*store, &open_gaps(id), &[0, 20, 30, 40]).await;
    let all = GapFilter { with_closed: true, ..open_gaps(id) };
    expect(&*store, &all, &[0, 20, 25, 30, 40]).await;
    for gap in store.list_gaps(&all).await.unwrap() {
        let closed = (gap.span.serials.start == 25).then(|| at(6));
        assert_eq!((gap.closed_at, gap.detected_at), (closed, at(5)));
        assert_eq!(gap.sign_off, None);
    }
}

pub async fn totals_do_not_depend_on_the_page(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let all = gaps(&*outbox.store, id).await;
    for page in [
        Page { after: 0, limit: 0 },
        Page { after: 0, limit: 2 },
        Page { after: all[1].id, limit: 1 },
        Page { after: all[3].id, limit: 10 },
    ] {
        let filter = GapFilter { page, ..open_gaps(id) };
        let totals = GapTotals { gaps: 4, serials: 26 };
        assert_eq!(outbox.store.count_gaps(&filter).await.unwrap(), totals);
        let mut expected = all.clone();
        expected.retain(|gap| gap.id > page.after);
        expected.truncate(page.limit.try_into().unwrap());
        assert_eq!(outbox.store.list_gaps(&filter).await.unwrap(), expected);
    }
}

fn sign_off(key_id: i64, seconds: i64, note: &str) -> SignOff {
    SignOff { key_id, at: at(seconds), note: note.to_owned() }
}

pub async fn a_gap_is_accepted_once(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let before = all_gaps(&*outbox.store, id).await;
    let first = sign_off(42, 10, "the server burned; it's \"fine\"");
    // An open one, and the closed one.
    for gap in [&before[0], &before[2]] {
        let expected = Gap { sign_off: Some(first.clone()), ..gap.clone() };
        for who in [&first, &sign_off(43, 11, "me, too")] {
            let signed = outbox.store.sign_off_gap(id, gap.id, who).await.unwrap();
            assert_eq!(signed, Some(expected.clone()), "the first one stays");
        }
    }
    let store = reopen(fixture, outbox.store).await;
    let after = all_gaps(&*store, id).await;
    assert_eq!(after[0].sign_off.as_ref(), Some(&first));
    assert_eq!(after[1], before[1]);
    assert_eq!(gaps_at(&*store, id, 5).await, [after[0].clone()]);
}

pub async fn an_unknown_gap_is_not_accepted(fixture: &dyn Fixture) {
    let outbox = Outbox::open(fixture).await;
    let id = with_gaps(&outbox).await;
    let other = new_sequence(&*outbox.store, "other").await;
    let gap = gaps(&*outbox.store, id).await[0].id;
    let by = sign_off(42, 10, "fine");
    for (type_id, gap) in [(id, gap + 1000), (id, -1), (other, gap), (TypeId(id.0 + 1000), gap)] {
        assert_eq!(outbox.store.sign_off_gap(type_id, gap, &by).await.unwrap(), None);
    }
    assert!(all_gaps(&*outbox.store, id).await.iter().all(|gap| gap.sign_off.is_none()));
}

/// What is left of a gap that was accepted was accepted.
pub async fn the_parts_of_an_accepted_gap_are_accepted(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let outbox = Outbox::of(&store, "acme").await;
    let id = outbox.type_id;
    outbox.draw(20).await;
    let lost = [span(id, 0..20)];
    let gap = store.close_draws(ME, &lost, GapReason::Crash, at(5)).await.unwrap()[0].id;
    let by = sign_off(42, 10, "fine");
    store.sign_off_gap(id, gap, &by).await.unwrap();
    store.record_issues(&[handed_out(id, 5..6)]).await.unwrap();
    outbox.assign(outbox.order(drawn([10]), single([document("1")]), 12)).await;
    let all = all_gaps(&*store, id).await;
    assert_eq!(merged(&all), [span(id, 0..5), span(id, 6..20)]);
    assert!(all.iter().all(|gap| gap.sign_off.as_ref() == Some(&by)), "{all:?}");
    let open = gaps(&*store, id).await;
    assert_eq!(merged(&open), [span(id, 0..5), span(id, 6..10), span(id, 11..20)]);
}
