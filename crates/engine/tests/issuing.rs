//! Issuing on the embedded store: uniqueness, order, exhaustion, restarts, crashes, resets.

mod support;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Engine;
use engine::error::{AdminError, IssueError};
use engine::issuing::IssueRequest;
use idgen::spec::IdType;
use support::{DAY_MS, Fixture};

fn id_type(json: &str) -> IdType {
    serde_json::from_str(json).unwrap()
}

fn digits(length: u8) -> IdType {
    id_type(&format!(
        r#"{{"name": "farmer", "random": {{"alphabet": "digits", "length": {length},
            "check": "verhoeff", "filters": "openg2p"}}}}"#
    ))
}

fn plain_sequence() -> IdType {
    id_type(r#"{"name": "order", "sequence": {"start": 1001, "template": "O-{seq}"}}"#)
}

async fn issue(engine: &Engine, name: &str, count: u64) -> Result<Vec<String>, IssueError> {
    let request = IssueRequest { tenant: "default", type_name: name, count, key_id: 7 };
    let ids = engine.issuer.issue(request).await?;
    Ok(ids.iter().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_get_different_ids_in_order() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(plain_sequence()).await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move {
                let mut last = 0;
                let mut ids = Vec::new();
                for round in 0..50 {
                    for id in issue(&engine, "order", 1 + (task + round) % 9).await.unwrap() {
                        let number: u64 = id[2..].parse().unwrap();
                        assert!(number > last, "each caller sees growing numbers");
                        last = number;
                        ids.push(number);
                    }
                }
                ids
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(distinct.first(), Some(&1001));
    assert_eq!(*distinct.last().unwrap(), 1000 + all.len() as u64, "no number is skipped");
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_type_hands_out_every_id_once_and_is_exhausted_for_ever() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let farmer = digits(5);
    engine.put_type(farmer.clone()).await.unwrap();
    let live = engine.catalogue.find("default", "farmer").unwrap();
    let idgen::spec::Kind::Random(spec) = farmer.kind() else { unreachable!() };
    let valid = idgen::capacity::Capacity::of(spec).unwrap().valid;

    let mut seen = HashSet::new();
    let error = loop {
        match issue(&engine, "farmer", 7).await {
            Ok(ids) => {
                for id in ids {
                    assert!(engine.validate(&live, &id).is_ok());
                    assert!(seen.insert(id));
                }
            }
            Err(error) => break error,
        }
    };
    let IssueError::Exhausted { left } = error else { panic!("{error}") };
    let report = engine.issuer.pools(None).await.unwrap().remove(0);
    assert_eq!((report.valid_left, report.exact), (left, true));
    assert_eq!(seen.len() as u128 + u128::from(left), valid);
    engine.shut_down().await;

    let engine = fixture.start().await;
    engine.issuer.warm_up();
    for _ in 0..left {
        assert!(seen.insert(issue(&engine, "farmer", 1).await.unwrap().remove(0)));
    }
    for _ in 0..3 {
        let error = issue(&engine, "farmer", 1).await.unwrap_err();
        assert_eq!(error, IssueError::Exhausted { left: 0 });
    }
    assert!(engine.issuer.pools(None).await.unwrap()[0].exhausted);
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_gives_the_rest_back() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(plain_sequence()).await.unwrap();
    assert_eq!(issue(&engine, "order", 3).await.unwrap(), ["O-1001", "O-1002", "O-1003"]);
    engine.shut_down().await;
    let engine = fixture.start().await;
    assert_eq!(issue(&engine, "order", 1).await.unwrap(), ["O-1004"]);
    let live = engine.catalogue.find("default", "order").unwrap();
    let history = engine.history(&live, None, 1002).await.unwrap();
    assert_eq!(history.issuances.len(), 1);
    assert_eq!(history.issuances[0].record.issue.key_id, 7);
    assert!(history.gaps.is_empty());
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_was_not_logged_is_a_gap() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(plain_sequence()).await.unwrap();
    let before = issue(&engine, "order", 5).await.unwrap();
    engine.issuer.flush_log().await.unwrap();
    drop(engine);

    let engine = fixture.start().await;
    let after = issue(&engine, "order", 5).await.unwrap();
    assert!(before.iter().all(|id| !after.contains(id)));
    let live = engine.catalogue.find("default", "order").unwrap();
    let first_after: u64 = after[0][2..].parse().unwrap();
    assert!(first_after > 1006);
    for serial in 1001..1006 {
        assert_eq!(engine.history(&live, None, serial).await.unwrap().issuances.len(), 1);
    }
    for serial in 1006..first_after {
        let history = engine.history(&live, None, serial).await.unwrap();
        assert_eq!(history.gaps[0].reason, storage::GapReason::Crash);
    }
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yearly_sequence_starts_again_on_new_years_day() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let invoice = r#"{"name": "invoice", "sequence": {"template": "INV-{yyyy}-{seq:04}", "reset": "yearly"}}"#;
    engine.put_type(id_type(invoice)).await.unwrap();
    assert_eq!(issue(&engine, "invoice", 2).await.unwrap(), ["INV-2026-0001", "INV-2026-0002"]);
    fixture.clock.advance(30 * DAY_MS);
    assert_eq!(issue(&engine, "invoice", 1).await.unwrap(), ["INV-2026-0003"]);
    fixture.clock.advance(30 * DAY_MS);
    assert_eq!(issue(&engine, "invoice", 1).await.unwrap(), ["INV-2027-0001"]);
    engine.shut_down().await;

    let engine = fixture.start().await;
    assert_eq!(issue(&engine, "invoice", 1).await.unwrap(), ["INV-2027-0002"]);
    let live = engine.catalogue.find("default", "invoice").unwrap();
    assert_eq!(engine.history(&live, None, 1).await.unwrap().issuances.len(), 2);
    assert_eq!(engine.history(&live, Some("2027"), 1).await.unwrap().issuances.len(), 1);
    engine.shut_down().await;
}

/// A template may show the day without starting again on it. IDs that wait in a pool must still
/// carry the day on which they are handed out.
#[tokio::test(flavor = "multi_thread")]
async fn the_date_is_that_of_the_day_of_issue() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let note = r#"{"name": "note", "sequence": {"template": "{yyyy}{mm}{dd}-{seq}"}}"#;
    engine.put_type(id_type(note)).await.unwrap();
    assert_eq!(issue(&engine, "note", 1).await.unwrap(), ["20261115-1"]);
    fixture.clock.advance(DAY_MS);
    assert_eq!(issue(&engine, "note", 1).await.unwrap(), ["20261116-2"]);
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_fixed_once_ids_are_out() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(digits(8)).await.unwrap();
    engine.put_type(digits(9)).await.unwrap();
    let id = issue(&engine, "farmer", 1).await.unwrap().remove(0);
    assert_eq!(id.len(), 9, "a type that was never used can change");

    let error = engine.put_type(digits(10)).await.unwrap_err();
    assert!(
        matches!(&error, AdminError::Frozen(fields) if fields == &["random.length"]),
        "{error}"
    );
    engine.put_type(digits(9)).await.unwrap();
    assert!(issue(&engine, "farmer", 1).await.is_ok());

    engine.remove_type("default".to_owned(), "farmer".to_owned()).await.unwrap();
    assert_eq!(issue(&engine, "farmer", 1).await.unwrap_err(), IssueError::Retired);
    let live = engine.catalogue.find("default", "farmer").unwrap();
    assert!(engine.validate(&live, &id).is_ok(), "its IDs can still be read");
    assert!(engine.put_type(digits(10)).await.is_err(), "its counter is kept for ever");
    engine.put_type(digits(9)).await.unwrap();
    assert_ne!(issue(&engine, "farmer", 1).await.unwrap(), [id]);
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_the_look_while_issuing_repeats_nothing() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let bottle = |group: u8| {
        id_type(&format!(
            r#"{{"name": "bottle", "random": {{"alphabet": "crockford32", "length": 12,
                "check": "iso7064", "group": {group}}}}}"#
        ))
    };
    engine.put_type(bottle(4)).await.unwrap();
    let issuing = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move {
            let mut ids = Vec::new();
            while ids.len() < 4_000 {
                // Right after a change the old pool is closed for a moment.
                if let Ok(more) = issue(&engine, "bottle", 10).await {
                    ids.extend(more.into_iter().map(|id| id.replace('-', "")));
                }
            }
            ids
        })
    };
    let mut group = 4;
    while !issuing.is_finished() {
        group = 10 - group;
        engine.put_type(bottle(group)).await.unwrap();
    }
    let ids = issuing.await.unwrap();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snowflakes_survive_a_clock_that_is_set_back_and_a_restart() {
    let mut fixture = Fixture::new();
    let event = id_type(r#"{"name": "event", "snowflake": {}}"#);
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let engine = fixture.start().await;
        engine.put_type(event.clone()).await.unwrap();
        fixture.clock.advance(1000);
        for id in issue(&engine, "event", 3000).await.unwrap() {
            assert!(seen.insert(id));
        }
        fixture.clock.advance(-40);
        for id in issue(&engine, "event", 1000).await.unwrap() {
            assert!(seen.insert(id), "the clock stepped back");
        }
        let some: u64 = seen.iter().next().unwrap().parse().unwrap();
        let live = engine.catalogue.find("default", "event").unwrap();
        assert_eq!(engine.history(&live, None, some).await.unwrap().issuances.len(), 1);
        drop(engine);
        fixture.clock.advance(-100);
    }
}

/// A type that is deleted and made again while requests run has two lines for a moment. Their draws
/// do not overlap, so their IDs do not either.
#[tokio::test(flavor = "multi_thread")]
async fn snowflakes_are_not_repeated_when_their_type_comes_and_goes() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let event = id_type(r#"{"name": "event", "snowflake": {}}"#);
    engine.put_type(event.clone()).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let issuing: Vec<_> = (0..4)
        .map(|_| {
            let (engine, done) = (Arc::clone(&engine), Arc::clone(&done));
            let clock = fixture.clock.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                while !done.load(Ordering::SeqCst) {
                    clock.advance(1);
                    // A retired type answers at once; the change must get its turn.
                    tokio::task::yield_now().await;
                    if let Ok(more) = issue(&engine, "event", 100).await {
                        ids.extend(more);
                    }
                }
                ids
            })
        })
        .collect();
    let mut own = Vec::new();
    for _ in 0..20 {
        engine.remove_type("default".to_owned(), "event".to_owned()).await.unwrap();
        engine.put_type(event.clone()).await.unwrap();
        // Beyond what the line before has drawn, and back behind it.
        fixture.clock.advance(600);
        let more = issue(&engine, "event", 10).await;
        own.extend(more.unwrap_or_default());
        fixture.clock.advance(-50);
    }
    fixture.clock.advance(1000);
    done.store(true, Ordering::SeqCst);
    let mut ids = own;
    for task in issuing {
        ids.extend(task.await.unwrap());
    }
    assert!(!ids.is_empty());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    engine.shut_down().await;
}

/// Every snowflake that was handed out is in the log or in a gap, even right before a crash.
#[tokio::test(flavor = "multi_thread")]
async fn snowflakes_are_accounted_for_after_a_crash() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(id_type(r#"{"name": "event", "snowflake": {}}"#)).await.unwrap();
    let logged = issue(&engine, "event", 2).await.unwrap();
    engine.issuer.flush_log().await.unwrap();
    fixture.clock.advance(50);
    let lost = issue(&engine, "event", 2).await.unwrap();
    drop(engine);

    let engine = fixture.start().await;
    let live = engine.catalogue.find("default", "event").unwrap();
    for id in &logged {
        let history = engine.history(&live, None, id.parse().unwrap()).await.unwrap();
        assert_eq!((history.issuances.len(), history.gaps.len()), (1, 0));
    }
    for id in &lost {
        let history = engine.history(&live, None, id.parse().unwrap()).await.unwrap();
        assert!(history.issuances.len() + history.gaps.len() >= 1, "{id} is not accounted for");
    }
    fixture.clock.advance(1000);
    let after = issue(&engine, "event", 2).await.unwrap();
    assert!(after.iter().all(|id| !lost.contains(id) && !logged.contains(id)));
    engine.shut_down().await;
}

/// Changing a type whose last serials wait in its pool must not make it look exhausted.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_does_not_lose_the_last_ids_of_a_small_type() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let code = |group: u8| {
        id_type(&format!(
            r#"{{"name": "code", "random": {{"alphabet": "digits", "length": 3,
                "check": "luhn", "group": {group}}}}}"#
        ))
    };
    engine.put_type(code(1)).await.unwrap();
    let mut seen = HashSet::new();
    for round in 0..100 {
        let id = issue(&engine, "code", 1).await.unwrap().remove(0);
        assert!(seen.insert(id.replace('-', "")));
        engine.put_type(code(1 + round % 2)).await.unwrap();
    }
    assert_eq!(seen.len(), 100);
    let error = issue(&engine, "code", 1).await.unwrap_err();
    assert_eq!(error, IssueError::Exhausted { left: 0 });
    engine.shut_down().await;
}

/// Small orders behind one that is too large are served with what is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_goes_to_those_whom_it_suffices() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    let code =
        r#"{"name": "code", "random": {"alphabet": "digits", "length": 3, "check": "luhn"}}"#;
    engine.put_type(id_type(code)).await.unwrap();
    let orders: Vec<_> = [500, 1, 1, 500, 1]
        .into_iter()
        .map(|count| {
            let engine = Arc::clone(&engine);
            tokio::spawn(async move { issue(&engine, "code", count).await.map(|ids| ids.len()) })
        })
        .collect();
    for (order, count) in orders.into_iter().zip([500, 1, 1, 500, 1]) {
        match order.await.unwrap() {
            Ok(issued) => assert_eq!((issued, count), (1, 1)),
            Err(error) => assert!(count == 500, "{error}"),
        }
    }
    engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_orders_are_refused() {
    let mut fixture = Fixture::new();
    let engine = fixture.start().await;
    engine.put_type(plain_sequence()).await.unwrap();
    for count in [0, 10_001, u64::MAX] {
        let error = issue(&engine, "order", count).await.unwrap_err();
        assert_eq!(error, IssueError::Count { count, max: 10_000 });
    }
    assert!(matches!(issue(&engine, "nothing", 1).await, Err(IssueError::UnknownType { .. })));
    let gapless = r#"{"name": "book", "sequence": {"gapless": true}}"#;
    engine.put_type(id_type(gapless)).await.unwrap();
    assert_eq!(issue(&engine, "book", 1).await, Err(IssueError::Gapless));
    assert_eq!(issue(&engine, "order", 10_000).await.unwrap().len(), 10_000);
    engine.shut_down().await;
}
