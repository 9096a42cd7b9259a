#![doc = include_str!("../README.md")]

use std::sync::Arc;

use async_trait::async_trait;
use storage::Store;

#[doc(hidden)]
pub mod answers;
#[doc(hidden)]
pub mod audit;
#[doc(hidden)]
pub mod batch_ranges;
mod batch_support;
#[doc(hidden)]
pub mod batches;
#[doc(hidden)]
pub mod cancelling;
#[doc(hidden)]
pub mod catalogue;
#[doc(hidden)]
pub mod chunks;
#[doc(hidden)]
pub mod claims;
#[doc(hidden)]
pub mod codes;
mod conformance;
#[doc(hidden)]
pub mod counters;
#[doc(hidden)]
pub mod dead_letters;
#[doc(hidden)]
pub mod deciding;
#[doc(hidden)]
pub mod delivering;
#[doc(hidden)]
pub mod delivery_lists;
#[doc(hidden)]
pub mod document_gaps;
#[doc(hidden)]
pub mod document_numbers;
mod document_support;
#[doc(hidden)]
pub mod documents;
#[doc(hidden)]
pub mod epochs;
#[doc(hidden)]
pub mod events;
#[doc(hidden)]
pub mod gap_lists;
#[doc(hidden)]
pub mod history;
#[doc(hidden)]
pub mod holders;
#[doc(hidden)]
pub mod idling;
#[doc(hidden)]
pub mod instances;
#[doc(hidden)]
pub mod keys;
#[doc(hidden)]
pub mod late_log;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod lookup;
#[doc(hidden)]
pub mod lost_chunks;
#[doc(hidden)]
pub mod lost_claims;
#[doc(hidden)]
pub mod lost_draws;
#[doc(hidden)]
pub mod made;
#[doc(hidden)]
pub mod manifests;
#[doc(hidden)]
pub mod ordering;
#[doc(hidden)]
pub mod orders;
mod outbox_support;
#[doc(hidden)]
pub mod receivers;
#[doc(hidden)]
pub mod reconciling;
#[doc(hidden)]
pub mod reservations;
#[doc(hidden)]
pub mod returns;
#[doc(hidden)]
pub mod routing;
#[doc(hidden)]
pub mod scan_contexts;
#[doc(hidden)]
pub mod setting_out;
#[doc(hidden)]
pub mod settling;
mod support;
#[doc(hidden)]
pub mod tenants;
#[doc(hidden)]
pub mod types;
mod upgrades;

pub use upgrades::check_marks;

/// A place where the store under test keeps its data.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// A new place, without data. It is cleared away when the fixture is dropped.
    async fn create() -> Self
    where
        Self: Sized;

    /// Opens the store over what is there. The suite opens it again after it has closed or dropped
    /// the one before; a store that is dropped without being closed stands for a crash, so
    /// whichever instance used it counts as gone. Where instances have leases, every lease that
    /// was taken through an earlier store has run out when this returns. Shared pools live on.
    async fn open(&self) -> Arc<dyn Store>;

    /// Takes every record of a draw away, behind the back of the store that is open: what a fault may do
    /// that nothing in the service does.
    async fn lose_draws(&self);

    /// Whether several instances may use the store at once, each as long as its lease. The other
    /// kind takes whoever is not the one that asks to be gone, and shared pools with it.
    fn many_instances(&self) -> bool;
}

/// Runs one behaviour on a runtime of its own, with more than one thread.
#[doc(hidden)]
pub fn run(behaviour: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the test")
        .block_on(behaviour);
}
