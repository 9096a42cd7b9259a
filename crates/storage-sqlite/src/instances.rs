//! The one instance that an embedded store has at a time.
//!
//! The directory's lock sees to it that there is one process. So a lease never runs out before its
//! process ends, nothing about it has to outlive that, and the node is always the same one.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use storage::{InstanceStore, Result};

use crate::SqliteStore;

const NODE: u16 = 0;

/// Who has joined and not left.
#[derive(Default)]
pub(crate) struct Joined(Mutex<BTreeSet<String>>);

impl Joined {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl InstanceStore for SqliteStore {
    async fn join(&self, instance: &str, _lease: Duration) -> Result<u16> {
        self.joined.lock().insert(instance.to_owned());
        Ok(NODE)
    }

    async fn renew(&self, instance: &str, _lease: Duration) -> Result<bool> {
        Ok(self.joined.lock().contains(instance))
    }

    async fn leave(&self, instance: &str) -> Result<()> {
        self.joined.lock().remove(instance);
        Ok(())
    }
}
