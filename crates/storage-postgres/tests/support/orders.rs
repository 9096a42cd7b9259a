//! Orders for batches.

#![allow(dead_code, reason = "no test binary uses all of it")]

use std::time::Duration;

use jiff::Timestamp;
use storage::{
    Batch, BatchOrder, BatchStore, ClaimTerms, Ledger, Ordered, TypeId, TypeStore, WorkerName,
};
use storage_postgres::PostgresStore;

pub(crate) const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);

/// A new type of the tenant `acme`.
pub(crate) async fn new_type(store: &PostgresStore, name: &str) -> TypeId {
    new_type_of(store, "acme", name).await
}

pub(crate) async fn new_type_of(store: &PostgresStore, tenant: &str, name: &str) -> TypeId {
    let spec = format!(r#"{{"tenant": "{tenant}", "name": "{name}", "sequence": {{}}}}"#);
    let id_type = serde_json::from_str(&spec).unwrap();
    store.create_type(&id_type, b"", NOW).await.unwrap().id
}

/// An order for codes of a type, from a serial on.
pub(crate) fn new_order(type_id: TypeId, first: u64, count: u64, chunk_serials: u64) -> BatchOrder {
    BatchOrder {
        type_id,
        revision: 0,
        count,
        bounds: (first, 1 << 60),
        chunk_serials,
        ledger: Ledger::Stored,
        name: None,
        metadata: None,
        notify: None,
        key_id: 0,
        order_key: None,
        active_max: 1000,
        codes_max: u64::MAX,
        now: NOW,
    }
}

/// The batch of an order that must not be refused.
pub(crate) async fn ordered(store: &PostgresStore, order: &BatchOrder) -> Batch {
    match store.order_batch(order).await.unwrap() {
        Ordered::Done(batch) => batch,
        refused => panic!("{refused:?}"),
    }
}

pub(crate) fn worker(number: u32) -> WorkerName {
    WorkerName { instance: "me".to_owned(), number }
}

pub(crate) fn terms() -> ClaimTerms {
    ClaimTerms { silent: Duration::from_secs(1800), attempts_max: 3, now: NOW }
}
