//! What a store still knows after an upgrade. A test of each store writes what an earlier release has
//! left behind, in its own way, and has the result checked here.

use jiff::Timestamp;
use storage::{BatchId, CodeKey, CodeStore, Ledger, TypeId};

/// Checks a stored batch with the serials 40 to 43, of which the first was never touched. The others were
/// scanned three times, first at second 1; scanned at second 2 and void as `stolen` since 3; void as
/// `lost` since 4.
pub async fn check_marks(store: &impl CodeStore, type_id: TypeId, batch: BatchId) {
    let key = |serial| CodeKey { type_id, batch, ledger: Ledger::Stored, serial };
    let mut found = Vec::new();
    for serial in 40..45 {
        let status = store.code(&key(serial)).await.unwrap();
        found.push(status.map(|status| {
            let void = status.void.map(|void| (void.at.as_second(), void.reason));
            (status.scans, status.first_scanned_at.map(Timestamp::as_second), void)
        }));
    }
    let void = |at, reason: &str| Some((at, reason.to_owned()));
    assert_eq!(
        found,
        [
            Some((0, None, None)),
            Some((3, Some(1), None)),
            Some((1, Some(2), void(3, "stolen"))),
            Some((0, None, void(4, "lost"))),
            None
        ]
    );
    let scans = [(key(40), 1), (key(41), 1)];
    let statuses = store.scan(&scans, &[], Timestamp::UNIX_EPOCH).await.unwrap();
    let scans: Vec<_> = statuses.into_iter().map(|status| status.unwrap().scans).collect();
    assert_eq!(scans, [1, 4]);
}
