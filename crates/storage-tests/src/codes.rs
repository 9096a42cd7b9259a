//! What happens to codes after they were made.

use std::sync::Arc;

use storage::{
    Batch, BatchId, BatchOrder, CODES_PER_TABLE, CodeKey, CodeStatus, Ledger, ScanKey, Store, Void,
    always,
};

use crate::Fixture;
use crate::batch_support::{
    CHUNK, batch_order, claimed, code, derived, make, ordered, stored, type_of,
};
use crate::support::{UNBOUNDED, at, crash, new_sequence, open, reopen};

const UNTOUCHED: CodeStatus = CodeStatus { scans: 0, first_scanned_at: None, void: None };

fn scanned(scans: u64, first: i64) -> CodeStatus {
    CodeStatus { scans, first_scanned_at: Some(at(first)), void: None }
}

fn void(reason: &str, seconds: i64) -> Void {
    Void { at: at(seconds), reason: reason.to_owned() }
}

async fn scan_one(store: &dyn Store, key: CodeKey, seconds: i64) -> Option<CodeStatus> {
    let mut statuses = store.scan(&[(key, 1)], &[], at(seconds)).await.unwrap();
    assert_eq!(statuses.len(), 1);
    statuses.remove(0)
}

/// A batch of each kind, made.
async fn one_of_each(store: &dyn Store) -> [Batch; 2] {
    let id = new_sequence(store, "code").await;
    let batches = [stored(store, id, 25).await, derived(store, id, 25).await];
    make(store, 3, 5).await;
    batches
}

pub async fn scans_are_counted(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let batches = one_of_each(&*store).await;
    for batch in &batches {
        for key in [0, 9, 10, 24].map(|position| code(batch, position)) {
            assert_eq!(store.code(&key).await.unwrap(), Some(UNTOUCHED));
            assert_eq!(scan_one(&*store, key, 10).await, Some(scanned(1, 10)));
            assert_eq!(scan_one(&*store, key, 11).await, Some(scanned(2, 10)));
            let many = store.scan(&[(key, 5)], &[], at(12)).await.unwrap();
            assert_eq!(many, [Some(scanned(7, 10))]);
            for _ in 0..2 {
                let status = store.code(&key).await.unwrap();
                assert_eq!(status, Some(scanned(7, 10)), "looking does not count");
            }
        }
    }
    for batch in &batches {
        store = reopen(fixture, store).await;
        assert_eq!(store.code(&code(batch, 9)).await.unwrap(), Some(scanned(7, 10)));
        assert_eq!(store.code(&code(batch, 8)).await.unwrap(), Some(UNTOUCHED));
        store = crash(fixture, store).await;
        assert_eq!(scan_one(&*store, code(batch, 9), 20).await, Some(scanned(8, 10)));
    }
}

pub async fn scans_at_once_add_up(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let key = code(&batch, 3);
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for _ in 0..5 {
                        scan_one(&*store, key, 10).await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store.code(&key).await.unwrap(), Some(scanned(40, 10)));
    }
}

const ONCE: ScanKey = [7; 32];

pub async fn a_scan_with_a_key_counts_once(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    for (batch, once) in one_of_each(&*store).await.iter().zip([[1; 32], [2; 32]]) {
        let key = code(batch, 3);
        scan_one(&*store, key, 10).await;
        let first = store.scan_once(&key, &once, None, at(11)).await.unwrap();
        assert_eq!(first, Some(scanned(2, 10)));
        scan_one(&*store, key, 12).await;
        store = crash(fixture, store).await;
        let again = store.scan_once(&key, &once, None, at(13)).await.unwrap();
        assert_eq!(again, Some(scanned(2, 10)), "it is the second one, as it was");
        assert_eq!(store.code(&key).await.unwrap(), Some(scanned(3, 10)));
        store.void_code(&key, "stolen", at(14)).await.unwrap();
        let again = store.scan_once(&key, &once, None, at(15)).await.unwrap().unwrap();
        assert_eq!((again.scans, again.void), (2, Some(void("stolen", 14))), "as it stands now");
        let other = store.scan_once(&key, &[9; 32], None, at(16)).await.unwrap().unwrap();
        assert_eq!(other.scans, 4);
        store.forget_scan_keys(at(17), 10).await.unwrap();
    }
}

pub async fn a_key_is_not_used_up_by_what_was_not_made(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [made, _] = one_of_each(&*store).await;
    let waiting = stored(&*store, made.type_id, CHUNK).await;
    let key = code(&waiting, 1);
    assert_eq!(store.scan_once(&key, &ONCE, None, at(10)).await.unwrap(), None);
    make(&*store, 1, 11).await;
    assert_eq!(store.scan_once(&key, &ONCE, None, at(12)).await.unwrap(), Some(scanned(1, 12)));
    assert_eq!(store.scan_once(&key, &ONCE, None, at(13)).await.unwrap(), Some(scanned(1, 12)));
}

pub async fn scans_with_one_key_at_once_count_once(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for (batch, once) in one_of_each(&*store).await.iter().zip([[1; 32], [2; 32]]) {
        let key = code(batch, 3);
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let store = Arc::clone(&store);
                tokio::spawn(
                    async move { store.scan_once(&key, &once, None, at(10)).await.unwrap() },
                )
            })
            .collect();
        for task in tasks {
            assert_eq!(task.await.unwrap(), Some(scanned(1, 10)));
        }
        assert_eq!(store.code(&key).await.unwrap(), Some(scanned(1, 10)));
    }
}

pub async fn keys_of_scans_are_forgotten_the_oldest_first(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [batch, _] = one_of_each(&*store).await;
    let key = code(&batch, 3);
    for second in 1..=5 {
        let once = [u8::try_from(second).unwrap(); 32];
        store.scan_once(&key, &once, None, at(second)).await.unwrap();
    }
    assert_eq!(store.forget_scan_keys(at(5), 3).await.unwrap(), 3);
    let forgotten = store.scan_once(&key, &[3; 32], None, at(6)).await.unwrap().unwrap();
    assert_eq!(forgotten.scans, 6, "it counts again");
    assert_eq!(store.forget_scan_keys(at(5), 3).await.unwrap(), 1);
    assert_eq!(store.forget_scan_keys(at(5), 3).await.unwrap(), 0);
    let kept = store.scan_once(&key, &[5; 32], None, at(7)).await.unwrap().unwrap();
    assert_eq!(kept.scans, 5);
}

pub async fn codes_of_several_batches_are_scanned_together(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let [made, free] = one_of_each(&*store).await;
    let waiting = stored(&*store, made.type_id, CHUNK).await;
    store.recall_batch(free.id, "wrong label", at(9)).await.unwrap();
    let gone = CodeKey { batch: BatchId::new(1, made.id.shard()), ..code(&free, 2) };
    let keys =
        [code(&waiting, 0), code(&free, 7), code(&made, 3), gone, code(&free, 1), code(&made, 0)];
    let scans: Vec<_> = keys.into_iter().zip([1, 2, 3, 4, 5, 6]).collect();
    for round in 1..=2 {
        let statuses = store.scan(&scans, &[], at(10)).await.unwrap();
        let recalled =
            |scans| CodeStatus { void: Some(void("wrong label", 9)), ..scanned(scans, 10) };
        let expected = [
            None,
            Some(recalled(2 * round)),
            Some(scanned(3 * round, 10)),
            None,
            Some(recalled(5 * round)),
            Some(scanned(6 * round, 10)),
        ];
        assert_eq!(statuses, expected);
    }
    assert_eq!(store.scan(&[], &[], at(11)).await.unwrap(), []);
    assert_eq!(store.code(&code(&made, 1)).await.unwrap(), Some(UNTOUCHED));
}

pub async fn a_code_that_is_not_made_is_not_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let batch = stored(&*store, id, 2 * CHUNK).await;
    for round in 0..3 {
        let chunk = if round < 2 { Some(claimed(&*store, 10).await) } else { None };
        for position in 0..2 * CHUNK {
            let key = code(&batch, position);
            let made = position < round * CHUNK;
            assert_eq!(store.code(&key).await.unwrap().is_some(), made);
            assert_eq!(scan_one(&*store, key, 11).await.is_some(), made);
            let status = store.void_code(&key, "a reason", at(12)).await.unwrap();
            assert_eq!(status.is_some(), made);
        }
        if let Some(chunk) = chunk {
            assert!(store.finish_chunk(&chunk, always(at(13))).await.unwrap());
            let first = store.code(&code(&batch, round * CHUNK)).await.unwrap();
            assert_eq!(first, Some(UNTOUCHED), "what came before it does not count");
        }
    }
}

pub async fn a_code_of_an_unknown_batch_is_not_there(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let batches = one_of_each(&*store).await;
    for batch in &batches {
        let key = CodeKey { batch: BatchId::new(1, batch.id.shard()), ..code(batch, 3) };
        assert_eq!(store.code(&key).await.unwrap(), None);
        assert_eq!(scan_one(&*store, key, 10).await, None);
        assert_eq!(store.void_code(&key, "a reason", at(10)).await.unwrap(), None);
        assert_eq!(store.code(&code(batch, 3)).await.unwrap(), Some(UNTOUCHED));
    }
}

/// Codes are kept in tables of a limited size.
pub async fn codes_on_both_sides_of_a_border_are_there(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    let id = new_sequence(&*store, "code").await;
    let bounds = (CODES_PER_TABLE - 4, UNBOUNDED.1);
    let order = |ledger| BatchOrder { bounds, ledger, ..batch_order(id, CHUNK) };
    let first = ordered(&*store, &order(Ledger::Stored)).await;
    make(&*store, 1, 9).await;
    let far = type_of(&*store, "acme", "far").await;
    let bounds = (3 * CODES_PER_TABLE - 4, UNBOUNDED.1);
    let second = BatchOrder { type_id: far, bounds, ..order(Ledger::Derived) };
    let second = ordered(&*store, &second).await;
    for batch in [first, second] {
        let scans: Vec<_> =
            (0..CHUNK).map(|position| (code(&batch, position), 1 + position)).collect();
        let statuses = store.scan(&scans, &[], at(10)).await.unwrap();
        let expected: Vec<_> = (0..CHUNK).map(|position| Some(scanned(1 + position, 10))).collect();
        assert_eq!(statuses, expected);
        store.void_code(&scans[3].0, "a reason", at(11)).await.unwrap();
        store = crash(fixture, store).await;
        for (key, count) in scans {
            let reason = if count == 4 { Some(void("a reason", 11)) } else { None };
            let expected = CodeStatus { void: reason, ..scanned(count, 10) };
            assert_eq!(store.code(&key).await.unwrap(), Some(expected));
        }
    }
}

pub async fn the_first_reason_of_a_void_code_stays(fixture: &dyn Fixture) {
    let mut store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let (fresh, used) = (code(&batch, 3), code(&batch, 4));
        scan_one(&*store, used, 8).await;
        for (key, before) in [(fresh, UNTOUCHED), (used, scanned(1, 8))] {
            let expected = Some(CodeStatus { void: Some(void("stolen", 10)), ..before.clone() });
            for (reason, seconds) in [("stolen", 10), ("another", 11)] {
                let status = store.void_code(&key, reason, at(seconds)).await.unwrap();
                assert_eq!(status, expected);
            }
            store = crash(fixture, store).await;
            assert_eq!(store.code(&key).await.unwrap(), expected, "looking does not count");
            let first = before.first_scanned_at.unwrap_or(at(12));
            let status = scan_one(&*store, key, 12).await.unwrap();
            assert_eq!((status.scans, status.first_scanned_at), (before.scans + 1, Some(first)));
            assert_eq!(status.void, Some(void("stolen", 10)));
        }
        assert_eq!(store.code(&code(&batch, 5)).await.unwrap(), Some(UNTOUCHED));
    }
}

pub async fn the_codes_of_a_recalled_batch_are_void(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    for batch in one_of_each(&*store).await {
        let [own, plain, late] = [3, 4, 5].map(|position| code(&batch, position));
        store.void_code(&own, "stolen", at(10)).await.unwrap();
        assert_eq!(scan_one(&*store, plain, 11).await, Some(scanned(1, 11)));
        store.recall_batch(batch.id, "wrong label", at(12)).await.unwrap();
        let recalled = Some(void("wrong label", 12));
        let expected = CodeStatus { void: recalled.clone(), ..scanned(2, 11) };
        assert_eq!(scan_one(&*store, plain, 13).await, Some(expected.clone()));
        assert_eq!(store.code(&plain).await.unwrap(), Some(expected));
        assert_eq!(scan_one(&*store, own, 13).await.unwrap().void, Some(void("stolen", 10)));
        assert_eq!(store.code(&late).await.unwrap().unwrap().void, recalled);
        let status = store.void_code(&late, "found", at(14)).await.unwrap().unwrap();
        assert_eq!(
            status.void,
            Some(void("found", 14)),
            "what is known of the code itself comes first"
        );
    }
}
