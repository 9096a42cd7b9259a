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
        self.record_all([(doing, detail)]).await
    }

    /// The same for several things at once.
    pub(crate) async fn record_all<'a>(
        &self,
        doings: impl IntoIterator<Item = (Doing<'a>, String)>,
    ) -> Result<(), StoreError> {
        let at = self.clock.now();
        let deeds: Vec<Deed> = doings
            .into_iter()
            .map(|(Doing { key_id, tenant, action, subject }, detail)| Deed {
                at,
                key_id,
                tenant: tenant.to_owned(),
                action: action.to_owned(),
                subject: subject.to_owned(),
                detail,
            })
            .collect();
        if deeds.is_empty() {
            return Ok(());
        }
        self.store.record_deeds(&deeds).await
    }

    /// What was done, with numbers, the latest first.
    pub async fn list(&self, filter: &DeedFilter) -> Result<Vec<(i64, Deed)>, StoreError> {
        self.store.deeds(filter).await
    }
}
