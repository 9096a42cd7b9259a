//! What came along with scans.

use std::collections::BTreeMap;
use std::sync::Arc;

use storage::{
    Batch, BatchId, BatchOrder, CODES_PER_TABLE, CodeKey, KeptContext, Ledger, PlacedContext,
    ScanContext, Store,
};

use crate::Fixture;
use crate::batch_support::{CHUNK, batch_order, code, derived, make, ordered, stored};
use crate::support::{UNBOUNDED, at, crash, new_sequence, open};

/// A batch of each kind, made.
async fn one_of_each(store: &dyn Store) -> [Batch; 2] {
    let id = new_sequence(store, "code").await;
    let batches = [stored(store, id, 25).await, derived(store, id, 25).await];
    make(store, 3, 5).await;
    batches
}

fn context(key_id: i64, place: &str) -> ScanContext {
    ScanContext { key_id, json: format!("{{\"place\":\"{place}\"}}") }
}

fn placed(code: usize, nth: u64, context: ScanContext) -> PlacedContext {
    PlacedContext { code, nth, context }
}

fn kept(number: u64, seconds: i64, context: ScanContext) -> KeptContext {
    KeptContext { number, scanned_at: at(seconds), context }
}

/// All that is kept about a code.
async fn all(store: &dyn Store, key: &CodeKey) -> Vec<KeptContext> {
    store.scan_contexts(key, u64::MAX, 1000).await.unwrap()
}

/// Scans a code once and says which scan it was.
async fn scan(store: &dyn Store, key: CodeKey, context: ScanContext, seconds: i64) -> u64 {
    let contexts = [placed(0, 1, context)];
    let statuses = store.scan(&[(key, 1)], &contexts, at(seconds)).await.unwrap();
    statuses[0].as_ref().unwrap().scans
}

pub async fn a_context_has_the_number_of_its_scan(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let [a, b, c] = [7, 3, 5].map(|position| code(&batch, position));
        store.scan(&[(a, 2)], &[], at(10)).await.unwrap();
        let contexts = [
            placed(1, 2, context(1, "second of b")),
            placed(0, 1, context(2, "first of a")),
            placed(0, 3, context(0, "third of a")),
        ];
        let statuses = store.scan(&[(a, 3), (b, 2), (c, 1)], &contexts, at(11)).await.unwrap();
        let scans: Vec<_> = statuses.into_iter().map(|status| status.unwrap().scans).collect();
        assert_eq!(scans, [5, 2, 1]);
        store.void_code(&a, "stolen", at(12)).await.unwrap();
        assert_eq!(scan(&*store, a, context(3, "void"), 13).await, 6);
        store = crash(fixture, store).await;
        let expected = [
            kept(6, 13, context(3, "void")),
            kept(5, 11, context(0, "third of a")),
            kept(3, 11, context(2, "first of a")),
        ];
        assert_eq!(all(&*store, &a).await, expected);
        assert_eq!(all(&*store, &b).await, [kept(2, 11, context(1, "second of b"))]);
        assert_eq!(all(&*store, &c).await, [], "nothing came along");
    }
}

/// Codes are kept in tables of a limited size, and those of both kinds can be counted in one step.
pub async fn contexts_are_kept_whatever_table_a_code_is_in(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let bounds = (CODES_PER_TABLE - 4, UNBOUNDED.1);
    let order = |ledger| BatchOrder { bounds, ledger, ..batch_order(id, CHUNK) };
    let batches = [
        ordered(&*store, &order(Ledger::Stored)).await,
        ordered(&*store, &order(Ledger::Derived)).await,
    ];
    make(&*store, 1, 9).await;
    let keys: Vec<_> =
        batches.iter().flat_map(|batch| [9, 0, 4].map(|position| code(batch, position))).collect();
    let scans: Vec<_> = keys.iter().map(|key| (*key, 2)).collect();
    let label = |place: usize| context(7, &place.to_string());
    let contexts: Vec<_> =
        (0..keys.len()).rev().map(|place| placed(place, 1, label(place))).collect();
    for round in 0..2 {
        let statuses = store.scan(&scans, &contexts, at(10)).await.unwrap();
        assert!(statuses.iter().flatten().all(|status| status.scans == 2 * (round + 1)));
    }
    for (place, key) in keys.iter().enumerate() {
        let expected = [kept(3, 10, label(place)), kept(1, 10, label(place))];
        assert_eq!(all(&*store, key).await, expected);
    }
}

pub async fn what_was_not_made_keeps_no_context(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [made, free] = one_of_each(&*store).await;
    let waiting = code(&stored(&*store, made.type_id, CHUNK).await, 1);
    let gone = CodeKey { batch: BatchId::new(1, made.id.shard()), ..code(&free, 2) };
    let scans = [(waiting, 1), (code(&made, 3), 1), (gone, 1)];
    let contexts: Vec<_> = (0..3).map(|place| placed(place, 1, context(1, "here"))).collect();
    let statuses = store.scan(&scans, &contexts, at(10)).await.unwrap();
    assert_eq!(statuses.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let once = store.scan_once(&waiting, &[1; 32], Some(&context(1, "here")), at(10)).await;
    assert_eq!(once.unwrap(), None);
    make(&*store, 1, 11).await;
    assert_eq!(all(&*store, &waiting).await, []);
    assert_eq!(all(&*store, &code(&free, 2)).await, []);
    assert_eq!(all(&*store, &code(&made, 3)).await, [kept(1, 10, context(1, "here"))]);
    assert_eq!(scan(&*store, waiting, context(1, "there"), 12).await, 1);
    assert_eq!(all(&*store, &waiting).await, [kept(1, 12, context(1, "there"))]);
}

pub async fn a_scan_with_a_key_keeps_its_context_once(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    for (batch, once) in one_of_each(&*store).await.iter().zip([[1; 32], [2; 32]]) {
        let key = code(batch, 3);
        store.scan(&[(key, 1)], &[], at(10)).await.unwrap();
        let first = context(5, "here");
        for (sent, seconds) in [(Some(&first), 11), (Some(&context(6, "there")), 12), (None, 13)] {
            let status = store.scan_once(&key, &once, sent, at(seconds)).await.unwrap().unwrap();
            assert_eq!(status.scans, 2);
            store = crash(fixture, store).await;
            assert_eq!(all(&*store, &key).await, [kept(2, 11, first.clone())]);
        }
    }
}

pub async fn contexts_of_scans_at_once_do_not_mix(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let key = code(&batch, 3);
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let mut told = Vec::new();
                    for round in 0..5 {
                        let context = context(task, &format!("{task} {round}"));
                        told.push((scan(&*store, key, context.clone(), 10).await, context));
                    }
                    told
                })
            })
            .collect();
        let mut told = BTreeMap::new();
        for task in tasks {
            told.extend(task.await.unwrap());
        }
        assert_eq!(told.len(), 40);
        let expected: Vec<_> =
            told.into_iter().rev().map(|(number, context)| kept(number, 10, context)).collect();
        assert_eq!(all(&*store, &key).await, expected);
    }
}

pub async fn contexts_are_listed_in_pages(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [batch, other] = one_of_each(&*store).await;
    let key = code(&batch, 3);
    for second in 1..=5 {
        for key in [key, code(&batch, 4), code(&other, 3)] {
            let context = context(second, &key.serial.to_string());
            scan(&*store, key, context, second).await;
        }
    }
    let page = async |before, limit| {
        let found = store.scan_contexts(&key, before, limit).await.unwrap();
        let own = context(0, &key.serial.to_string()).json;
        assert!(found.iter().all(|kept| kept.context.json == own), "only of this code");
        found.into_iter().map(|kept| kept.number).collect::<Vec<_>>()
    };
    assert_eq!(page(u64::MAX, 2).await, [5, 4]);
    assert_eq!(page(4, 2).await, [3, 2]);
    assert_eq!(page(2, 2).await, [1]);
    assert_eq!(page(1, 2).await, [] as [u64; 0]);
}

pub async fn contexts_are_forgotten_the_oldest_first(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let keys = [3, 4].map(|position| code(&batch, position));
        // The earlier scans are not those that were written first.
        for second in [4, 5, 1, 2, 3] {
            for key in keys {
                scan(&*store, key, context(second, "here"), second).await;
            }
        }
        let left = async || {
            let mut left = [all(&*store, &keys[0]).await, all(&*store, &keys[1]).await].concat();
            left.sort_by_key(|kept| kept.scanned_at);
            left.into_iter().map(|kept| kept.context.key_id).collect::<Vec<_>>()
        };
        assert_eq!(store.forget_scan_contexts(at(1), 4).await.unwrap(), 0);
        assert_eq!(store.forget_scan_contexts(at(5), 4).await.unwrap(), 4);
        assert_eq!(left().await, [3, 3, 4, 4, 5, 5]);
        assert_eq!(store.forget_scan_contexts(at(5), 5).await.unwrap(), 4);
        assert_eq!(store.forget_scan_contexts(at(5), 5).await.unwrap(), 0);
        assert_eq!(left().await, [5, 5]);
        for key in keys {
            assert_eq!(store.code(&key).await.unwrap().unwrap().scans, 5, "they still count");
        }
        assert_eq!(store.forget_scan_contexts(at(6), 5).await.unwrap(), 2);
    }
}

pub async fn a_context_comes_back_as_it_was_sent(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [batch, _] = one_of_each(&*store).await;
    let key = code(&batch, 3);
    let long = format!("{{\"a\":\"{}\"}}", "\u{1f9c0}".repeat(600));
    let texts =
        ["{}", r#"{"a":"\u0000","\u0000":1e2}"#, r#"{"b":1,"a":[null,"\"\\'$1"],"b":2}"#, &long];
    for text in texts {
        let context = ScanContext { key_id: i64::MAX, json: text.to_owned() };
        scan(&*store, key, context, 10).await;
    }
    let found: Vec<_> =
        all(&*store, &key).await.into_iter().map(|kept| kept.context.json).collect();
    assert_eq!(found.iter().rev().collect::<Vec<_>>(), texts);
}
