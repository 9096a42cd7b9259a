//! What the files of batches came to.

use storage::{BatchId, Manifest};

use crate::Fixture;
use crate::batch_support::{derived, stored, type_of};
use crate::support::{at, crash, open, reopen};

fn manifest(bytes: u64) -> Manifest {
    Manifest {
        file: "format=csv&columns=code".to_owned(),
        ends: format!("ends of {bytes}"),
        bytes,
        sha256: format!("sum of {bytes}"),
        at: at(10),
    }
}

pub async fn the_first_manifest_stays(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let id = type_of(&*store, "acme", "code").await;
    let batches = [stored(&*store, id, 5).await.id, derived(&*store, id, 5).await.id];
    for batch in batches {
        assert_eq!(store.manifest(batch).await.unwrap(), None);
        store.keep_manifest(batch, &manifest(7)).await.unwrap();
        store.keep_manifest(batch, &manifest(8)).await.unwrap();
        assert_eq!(store.manifest(batch).await.unwrap(), Some(manifest(7)));
    }
    let store = reopen(fixture, store).await;
    assert_eq!(store.manifest(batches[0]).await.unwrap(), Some(manifest(7)));
    let store = crash(fixture, store).await;
    assert_eq!(store.manifest(batches[1]).await.unwrap(), Some(manifest(7)));
}

pub async fn every_batch_has_its_own_manifest(fixture: &dyn Fixture) {
    let store = open(fixture).await;
    let mut batches = Vec::new();
    for (tenant, bytes) in [("acme", 1), ("acme-two", 1 << 40), ("third", 0)] {
        let id = type_of(&*store, tenant, "code").await;
        let batch = derived(&*store, id, 5).await.id;
        store.keep_manifest(batch, &manifest(bytes)).await.unwrap();
        batches.push((batch, bytes));
    }
    for (batch, bytes) in batches {
        assert_eq!(store.manifest(batch).await.unwrap(), Some(manifest(bytes)));
        assert_eq!(store.manifest(BatchId(batch.0 + 1)).await.unwrap(), None);
    }
    assert_eq!(store.manifest(BatchId(i64::MAX)).await.unwrap(), None);
}
