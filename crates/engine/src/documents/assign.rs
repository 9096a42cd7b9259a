//! Giving documents their numbers: those that wait at the same moment for numbers of one type are put on
//! record by one step.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use storage::{Assigned, Delivery, DocumentOrder, NewDocument, Numbers, StoreError, TypeId};

use super::counter::Counter;
use super::numbers::DocumentNumbers;
use super::taken::Taken;
use crate::LiveType;
use crate::error::IssueError;
use crate::groups::GroupStep;
use crate::outbox::{Freight, LiveReceiver, Outbox};
use crate::surroundings::Common;

/// What is larger than this weighs as much as several documents, so that a step stays below 16 MiB unless
/// one request has more.
const BYTES_OF_ONE: usize = 8 << 10;

/// A request for numbers.
pub(super) struct AssignRequest {
    pub(super) live: Arc<LiveType>,
    pub(super) sink: Arc<LiveReceiver>,
    pub(super) documents: Vec<NewDocument>,
}

/// One step: takes numbers and puts documents on record.
pub(super) struct AssignStep {
    pub(super) common: Common,
    pub(super) outbox: Arc<Outbox>,
    pub(super) numbers: DocumentNumbers,
}

/// A type as it is set now, and where its documents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct AssignKey {
    pub(super) type_id: TypeId,
    pub(super) revision: i64,
    pub(super) sink: i64,
}

#[async_trait]
impl GroupStep for AssignStep {
    type Key = AssignKey;
    type Request = AssignRequest;
    type Answer = Result<Vec<Assigned>, IssueError>;
    const SIZE_MAX: usize = 2000;
    const PATIENCE: Duration = Duration::from_millis(2);

    fn size(request: &AssignRequest) -> usize {
        let bytes: usize = request.documents.iter().map(|document| document.payload.len()).sum();
        request.documents.len() + bytes / BYTES_OF_ONE
    }

    async fn serve(&self, _: AssignKey, group: Vec<AssignRequest>) -> Vec<Self::Answer> {
        let count = group.len();
        let Some(first) = group.first() else { return Vec::new() };
        let (live, sink) = (Arc::clone(&first.live), Arc::clone(&first.sink));
        let requests = group.into_iter().map(|request| request.documents).collect();
        match self.assign(&live, &sink, requests).await {
            Ok(assigned) => assigned.into_iter().map(Ok).collect(),
            Err(problem) => vec![Err(problem); count],
        }
    }
}

impl AssignStep {
    async fn assign(
        &self,
        live: &Arc<LiveType>,
        sink: &Arc<LiveReceiver>,
        requests: Vec<Vec<NewDocument>>,
    ) -> Result<Vec<Vec<Assigned>>, IssueError> {
        let now = self.common.now();
        let counter = Counter::now(live, now)?;
        let documents = requests.iter().map(Vec::len).sum();
        let ids = if counter.gapless {
            Vec::new()
        } else {
            self.numbers.take(live, &counter, documents).await?
        };
        let numbers = if counter.gapless {
            Numbers::Counter { bounds: counter.bounds(), render: counter.render(live) }
        } else {
            let holder = self.numbers.instance().to_owned();
            Numbers::Drawn { holder, ids: ids.clone() }
        };
        let freight = Freight::of(requests.iter().flatten().map(|document| &document.payload));
        let claimed_until = self.outbox.claim_ahead(sink, freight);
        let room = claimed_until.map(|_| (&**sink, freight));
        let taken = Taken { numbers: &self.numbers, live, counter: &counter, ids: &ids, room };
        let order = Arc::new(DocumentOrder {
            type_id: live.stored().id,
            revision: live.stored().revision,
            period: counter.period().to_owned(),
            numbers,
            sink: sink.id(),
            in_order: sink.is_ordered(),
            requests,
            claimed_until,
            now,
        });
        let result = self.common.store.assign_documents(&order).await;
        taken.ended();
        let assigned = match result {
            Ok(assigned) => assigned,
            Err(problem) => {
                if claimed_until.is_some() {
                    Outbox::leave(sink, freight);
                }
                return Err(self.failed(live, &counter, &ids, problem).await);
            }
        };
        let new: Vec<Delivery> = assigned.iter().flatten().filter_map(new_delivery).collect();
        self.numbers.put_back(live.stored().id, &counter, ids.get(new.len()..).unwrap_or_default());
        self.common.metrics.documents_assigned.inc_by(new.len() as u64);
        if claimed_until.is_some() {
            let begun = Freight::of(new.iter().map(|delivery| &delivery.content.body));
            Outbox::leave(sink, freight.without(begun));
            self.outbox.hand_over(new);
        } else {
            self.outbox.wake();
        }
        Ok(assigned)
    }

    /// What to make of a step that failed. It may be on record all the same, if only its answer was lost.
    pub(super) async fn failed(
        &self,
        live: &LiveType,
        counter: &Counter,
        ids: &[(u64, String)],
        problem: StoreError,
    ) -> IssueError {
        let type_id = live.stored().id;
        if let StoreError::Stale | StoreError::NotFound(_) = problem {
            // Another instance took this one for gone and has recorded what it held as lost, or the type
            // was changed. Either way these numbers must not be used.
            self.numbers.leave(type_id, counter, ids).await;
            return IssueError::Closed;
        }
        if let StoreError::NoConnection(_) = problem {
            // The store never heard of it.
            self.numbers.put_back(type_id, counter, ids);
        } else {
            self.numbers.doubt(type_id, counter.period(), ids);
        }
        problem.into()
    }
}

fn new_delivery(assigned: &Assigned) -> Option<Delivery> {
    match assigned {
        Assigned::New(delivery) => Some(delivery.clone()),
        _ => None,
    }
}
