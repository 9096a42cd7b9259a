//! Documents: an ID and its payload in one step, delivered through the outbox.

mod assign;
mod counter;
mod dead_letters;
mod error;
mod numbers;
mod reservations;
mod serials;
mod sinks;
mod taken;

use std::sync::Arc;

use idgen::format::Format;
use storage::{Assigned, DocumentFilter, DocumentRecord, NewDocument, StoreError};

pub use self::dead_letters::{DeadDocuments, DeadPlace, Decision, subject};
pub use self::error::DocumentError;
pub use self::reservations::HoldOrder;
pub(crate) use self::sinks::StoredSink;
pub use self::sinks::{Place, PutSink, SinkOrder, Sinks};

use self::assign::{AssignKey, AssignRequest, AssignStep};
use self::numbers::DocumentNumbers;
use crate::LiveType;
use crate::catalogue::Catalogue;
use crate::error::IssueError;
use crate::groups::Groups;
use crate::outbox::Outbox;
use crate::surroundings::Common;

/// Gives documents their numbers.
pub struct Documents {
    common: Common,
    catalogue: Arc<Catalogue>,
    outbox: Arc<Outbox>,
    groups: Groups<AssignStep>,
    /// Where documents are delivered.
    pub sinks: Sinks,
}

/// Documents that need numbers.
#[derive(Debug, Clone)]
pub struct AssignOrder<'a> {
    /// Whose.
    pub tenant: &'a str,
    /// Of which type.
    pub type_name: &'a str,
    /// The documents, at least one.
    pub documents: Vec<NewDocument>,
}

impl Documents {
    pub(crate) fn new(
        common: Common,
        catalogue: Arc<Catalogue>,
        outbox: Arc<Outbox>,
        sinks: Sinks,
        instance: String,
    ) -> Self {
        let numbers = DocumentNumbers::new(common.clone(), instance);
        let step = AssignStep { common: common.clone(), outbox: Arc::clone(&outbox), numbers };
        Self { common, catalogue, outbox, groups: Groups::new(step), sinks }
    }

    /// Gives documents numbers and puts them into the outbox: all of them, or none. Returns the IDs in
    /// order.
    pub async fn assign(&self, order: AssignOrder<'_>) -> Result<Vec<String>, DocumentError> {
        match self.try_assign(&order).await {
            // The type was changed, here or by another instance; or this one was taken for gone.
            Err(DocumentError::Issue(IssueError::Closed)) => {
                self.catalogue.refresh().await.map_err(IssueError::from)?;
                self.try_assign(&order).await
            }
            result => result,
        }
    }

    async fn try_assign(&self, order: &AssignOrder<'_>) -> Result<Vec<String>, DocumentError> {
        let live = self.catalogue.find(order.tenant, order.type_name)?;
        let sink = self.sinks.of_type(order.tenant, order.type_name);
        let sink = sink.ok_or(DocumentError::NoSink)?;
        let stored = live.stored();
        let key = AssignKey { type_id: stored.id, revision: stored.revision, sink: sink.id().0 };
        let documents = order.documents.clone();
        let request = AssignRequest { live: Arc::clone(&live), sink, documents };
        let interrupted = || IssueError::Unavailable("the step was interrupted".to_owned());
        let assigned = self.groups.ask(key, request).await.ok_or_else(interrupted)??;
        let mut ids = Vec::with_capacity(assigned.len());
        for (place, assigned) in assigned.into_iter().enumerate() {
            match assigned {
                Assigned::New(delivery) => ids.push(delivery.content.key),
                Assigned::Known { id, .. } => ids.push(id),
                Assigned::Conflict { id } => return Err(DocumentError::Conflict { place, id }),
                // The one that is in conflict comes later.
                Assigned::Refused => {}
                Assigned::NoRoom => return Err(IssueError::Exhausted { left: 0 }.into()),
            }
        }
        Ok(ids)
    }

    /// A document by its ID, with its type. Without the name of a type, every type of the tenant is tried
    /// that could have written the ID.
    pub async fn find(
        &self,
        tenant: &str,
        type_name: Option<&str>,
        id: &str,
    ) -> Result<(DocumentRecord, Arc<LiveType>), DocumentError> {
        let types = match type_name {
            Some(name) => vec![self.catalogue.find(tenant, name)?],
            None => self.catalogue.of_tenant(tenant),
        };
        for live in types {
            if let Some(record) = self.find_of_type(&live, id).await? {
                return Ok((record, live));
            }
        }
        Err(DocumentError::NotFound("document"))
    }

    async fn find_of_type(
        &self,
        live: &LiveType,
        id: &str,
    ) -> Result<Option<DocumentRecord>, StoreError> {
        let (Ok((serial, period)), Format::Sequence(_) | Format::Random(_)) =
            (live.serial_of(id), live.format())
        else {
            return Ok(None);
        };
        // Without the period, each day of a type that begins again every day may have such a document.
        let (store, type_id) = (&self.common.store, live.stored().id);
        let found = store.find_documents(type_id, period.as_deref(), serial).await?;
        // A template without a date in it may have the same ID in several periods.
        Ok(found.into_iter().rev().find(|record| matches(record, id, live)))
    }

    /// Documents of a type, the latest first.
    pub async fn list(&self, filter: &DocumentFilter) -> Result<Vec<DocumentRecord>, StoreError> {
        self.common.store.documents(filter).await
    }

    /// Gives back numbers that nobody takes, and has the store find out what became of steps that failed.
    pub(crate) async fn tidy_numbers(&self) -> Result<(), StoreError> {
        let numbers = &self.groups.step().numbers;
        numbers.return_idle().await;
        numbers.settle_doubts().await
    }

    /// Gives back numbers that were drawn ahead.
    pub(crate) async fn close(&self) {
        self.groups.step().numbers.close().await;
    }
}

/// Whether a document has an ID, however that is written.
fn matches(record: &DocumentRecord, id: &str, live: &LiveType) -> bool {
    let own = &record.delivery.content.key;
    let same = || live.format().parse(own).ok() == live.format().parse(id).ok();
    // A random type has one period, so its serials tell.
    matches!(live.format(), Format::Random(_)) || own == id || same()
}
