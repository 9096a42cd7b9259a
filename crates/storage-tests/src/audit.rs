//! The audit log.

use std::sync::Arc;

use storage::{Deed, DeedFilter, Store};

use crate::Fixture;
use crate::support::{at, crash, open, reopen};

fn deed(tenant: &str, action: &str, subject: &str, seconds: i64) -> Deed {
    Deed {
        at: at(seconds),
        key_id: seconds,
        tenant: tenant.to_owned(),
        action: action.to_owned(),
        subject: subject.to_owned(),
        detail: format!(r#"{{"seconds": {seconds}}}"#),
    }
}

/// Everything that is on record, the latest first.
async fn all(store: &dyn Store) -> Vec<(i64, Deed)> {
    store.deeds(&every()).await.unwrap()
}

fn every() -> DeedFilter {
    DeedFilter { limit: 1000, ..DeedFilter::default() }
}

/// Some deeds of several tenants, in order of time.
fn several() -> Vec<Deed> {
    let mut deeds = Vec::new();
    for seconds in (0..24).step_by(4) {
        deeds.push(deed("acme", "batch.downloaded", "17", seconds));
        deeds.push(deed("other", "batch.downloaded", "18", seconds + 1));
        deeds.push(deed("acme", "receiver.changed", "17", seconds + 2));
        deeds.push(deed("acme", "receiver.changed", "18", seconds + 3));
    }
    deeds
}

async fn record(store: &dyn Store, deeds: &[Deed]) {
    for deed in deeds {
        store.record_deeds(std::slice::from_ref(deed)).await.unwrap();
    }
}

pub async fn a_deed_is_durable_when_it_is_recorded(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    assert_eq!(all(&*store).await, []);
    let strange = Deed {
        key_id: 0,
        tenant: "Bülent & Söhne".to_owned(),
        subject: "it's \"17\"\n\\".to_owned(),
        detail: "{\"why\": \"'; DROP TABLE deeds; -- \u{1f525}\"}".to_owned(),
        ..deed("", "", "", 1)
    };
    let deeds = [strange, deed("acme", "batch.downloaded", "17", 2)];
    for (number, deed) in deeds.iter().enumerate() {
        store.record_deeds(std::slice::from_ref(deed)).await.unwrap();
        store = crash(fixture, store).await;
        let found = all(&*store).await;
        assert_eq!((found.len(), &found[0].1), (number + 1, deed));
    }
}

pub async fn deeds_are_listed_latest_first(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let deeds = several();
    record(&*store, &deeds).await;
    let found = all(&*store).await;
    assert!(found.is_sorted_by(|one, next| one.0 > next.0), "each has a number of its own");
    let listed: Vec<_> = found.into_iter().map(|(_, deed)| deed).collect();
    assert_eq!(listed, deeds.into_iter().rev().collect::<Vec<_>>());
}

pub async fn deeds_are_listed_in_pages(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    record(&*store, &several()).await;
    let found = all(&*store).await;
    let mut read: Vec<(i64, Deed)> = Vec::new();
    loop {
        let before = read.last().map(|(number, _)| *number);
        let page = store.deeds(&DeedFilter { before, limit: 7, ..every() }).await.unwrap();
        assert!(page.len() <= 7);
        assert!(page.iter().all(|(number, _)| before.is_none_or(|before| *number < before)));
        if page.is_empty() {
            break;
        }
        // What comes meanwhile is ahead of the pages.
        record(&*store, &[deed("acme", "batch.downloaded", "17", 100)]).await;
        read.extend(page);
    }
    assert_eq!(read, found);
    assert_eq!(store.deeds(&DeedFilter::default()).await.unwrap(), [], "the limit is 0");
}

pub async fn deeds_are_filtered(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    record(&*store, &several()).await;
    let found = all(&*store).await;
    let choices = |values: [&str; 3]| {
        [None].into_iter().chain(values.map(|value| Some(value.to_owned()))).collect::<Vec<_>>()
    };
    let admits = |wanted: &Option<String>, value: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted == value)
    };
    for tenant in choices(["acme", "other", "Acme"]) {
        for action in choices(["batch.downloaded", "receiver.changed", "batch"]) {
            for subject in choices(["17", "18", "1_"]) {
                let mut expected = found.clone();
                expected.retain(|(_, deed)| {
                    admits(&tenant, &deed.tenant)
                        && admits(&action, &deed.action)
                        && admits(&subject, &deed.subject)
                });
                let filter = DeedFilter {
                    tenant: tenant.clone(),
                    action: action.clone(),
                    subject: subject.clone(),
                    ..every()
                };
                assert_eq!(store.deeds(&filter).await.unwrap(), expected, "{filter:?}");
                let Some((before, _)) = expected.first() else { continue };
                let page = DeedFilter { before: Some(*before), limit: 2, ..filter };
                let rest = &expected[1..];
                assert_eq!(store.deeds(&page).await.unwrap(), rest[..rest.len().min(2)]);
            }
        }
    }
}

/// Whatever is done later, the same way or another, leaves a deed as it is.
pub async fn a_deed_never_changes(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    record(&*store, &several()).await;
    let before = all(&*store).await;
    record(&*store, &several()).await;
    let store = reopen(fixture, store).await;
    let now = all(&*store).await;
    assert_eq!(now.len(), 2 * before.len());
    assert_eq!(now[before.len()..], before);
}

pub async fn deeds_at_once_are_all_recorded(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let tenant = if task % 2 == 0 { "acme" } else { "other" };
                store.record_deeds(&[deed(tenant, "batch.downloaded", "17", task)]).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut found: Vec<_> = all(&*store).await.into_iter().map(|(_, deed)| deed.key_id).collect();
    found.sort_unstable();
    assert_eq!(found, (0..32).collect::<Vec<_>>());
}
