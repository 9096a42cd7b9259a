//! The audit log: who has done what.

use std::sync::Arc;

use storage::{Deed, DeedFilter, Store, StoreError};

use crate::surroundings::{Clock, Common};

/// Something that somebody does now.
#[derive(Debug, Clone, Copy)]
pub struct Doing<'a> {
    /// The API key's number, or 0 where the server runs open.
    pub key_id: i64,
    /// The tenant that it concerns.
    pub tenant: &'a str,
    /// What, such as `batch.downloaded`.
    pub action: &'static str,
    /// What it is done to.
    pub subject: &'a str,
}

/// Keeps the audit log.
pub struct Audit {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Audit {
    pub(crate) fn new(common: &Common) -> Self {
        let Common { store, clock, .. } = common.clone();
        Self { store, clock }
    }

    /// Takes on record what somebody is about to do, with anything else worth knowing as JSON. Whoever
    /// cannot be recorded must not do it.
    pub async fn record(&self, doing: Doing<'_>, detail: String) -> Result<(), StoreError> {
        let Doing { key_id, tenant, action, subject } = doing;
        let deed = Deed {
            at: self.clock.now(),
            key_id,
            tenant: tenant.to_owned(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            detail,
        };
        self.store.record_deeds(&[deed]).await
    }

    /// What was done, with numbers, the latest first.
    pub async fn list(&self, filter: &DeedFilter) -> Result<Vec<(i64, Deed)>, StoreError> {
        self.store.deeds(filter).await
    }
}
