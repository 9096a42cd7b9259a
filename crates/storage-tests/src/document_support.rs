//! What the behaviours of documents have in common.

use std::ops::Range;
use std::sync::Arc;

use storage::{
    Assigned, Delivery, DocumentFilter, DocumentKey, DocumentOrder, DocumentRecord, Gap,
    NewDocument, Numbers, ReservationOrder, Store, TypeId, Wanted,
};

use crate::outbox_support::{Outbox, claim};
use crate::support::{ME, UNBOUNDED, at, draw};

/// The ID of a serial.
pub(crate) fn id(serial: u64) -> String {
    format!("N-{serial}")
}

/// A document that nothing tells apart from others.
pub(crate) fn document(payload: &str) -> NewDocument {
    NewDocument { payload: payload.to_owned(), reference: None, request_key: None, key_id: 7 }
}

/// A document that the client has a name for.
pub(crate) fn named(payload: &str, reference: &str) -> NewDocument {
    NewDocument { reference: Some(reference.to_owned()), ..document(payload) }
}

/// A document of a request that can be repeated.
pub(crate) fn keyed(payload: &str, request_key: &str) -> NewDocument {
    NewDocument { request_key: Some(request_key.to_owned()), ..document(payload) }
}

/// Requests for one document each.
pub(crate) fn single(documents: impl IntoIterator<Item = NewDocument>) -> Vec<Vec<NewDocument>> {
    documents.into_iter().map(|document| vec![document]).collect()
}

/// Numbers that [`ME`] has drawn.
pub(crate) fn drawn(serials: impl IntoIterator<Item = u64>) -> Numbers {
    drawn_by(ME, serials)
}

/// Numbers that somebody has drawn.
pub(crate) fn drawn_by(holder: &str, serials: impl IntoIterator<Item = u64>) -> Numbers {
    let ids = serials.into_iter().map(|serial| (serial, id(serial))).collect();
    Numbers::Drawn { holder: holder.to_owned(), ids }
}

/// Numbers that are taken in the step.
pub(crate) fn counted(bounds: (u64, u64)) -> Numbers {
    Numbers::Counter { bounds, render: Arc::new(|serials: Range<u64>| serials.map(id).collect()) }
}

/// The delivery of a document that was given a number.
pub(crate) fn new(assigned: &Assigned) -> &Delivery {
    match assigned {
        Assigned::New(delivery) => delivery,
        other => panic!("it has no new number: {other:?}"),
    }
}

/// The serial of a document that was given a number.
pub(crate) fn serial(assigned: &Assigned) -> u64 {
    new(assigned).document.as_ref().expect("it is a document").serial
}

/// What became of documents, in short: a new serial, `=` and the ID that it has, or why there is none.
pub(crate) fn told(assigned: &[Vec<Assigned>]) -> String {
    let tell = |assigned: &Assigned| match assigned {
        Assigned::New(_) => serial(assigned).to_string(),
        Assigned::Known { id, .. } => format!("={id}"),
        Assigned::Conflict { .. } => "conflict".to_owned(),
        Assigned::Refused => "refused".to_owned(),
        Assigned::NoRoom => "no room".to_owned(),
    };
    let request = |request: &Vec<Assigned>| -> String {
        request.iter().map(tell).collect::<Vec<_>>().join(" ")
    };
    assigned.iter().map(request).collect::<Vec<_>>().join(", ")
}

/// The number of a document of a counter without a period.
pub(crate) fn key(type_id: TypeId, serial: u64) -> DocumentKey {
    DocumentKey { type_id, period: String::new(), serial }
}

impl Outbox {
    /// An order for numbers of the type, of the counter without a period.
    pub(crate) fn order(
        &self,
        numbers: Numbers,
        requests: Vec<Vec<NewDocument>>,
        seconds: i64,
    ) -> DocumentOrder {
        DocumentOrder {
            type_id: self.type_id,
            revision: 0,
            period: String::new(),
            numbers,
            sink: self.receiver,
            in_order: false,
            requests,
            claimed_until: None,
            now: at(seconds),
        }
    }

    /// Gives documents numbers.
    pub(crate) async fn try_assign(
        &self,
        order: DocumentOrder,
    ) -> storage::Result<Vec<Vec<Assigned>>> {
        self.store.assign_documents(&Arc::new(order)).await
    }

    /// Gives documents numbers, in a step that must not fail.
    pub(crate) async fn assign(&self, order: DocumentOrder) -> Vec<Vec<Assigned>> {
        self.try_assign(order).await.unwrap()
    }

    /// Gives documents numbers of the counter, each in a request of its own.
    pub(crate) async fn count(
        &self,
        documents: impl IntoIterator<Item = NewDocument>,
        seconds: i64,
    ) -> Vec<Vec<Assigned>> {
        self.assign(self.order(counted(UNBOUNDED), single(documents), seconds)).await
    }

    /// Puts a document on record under the next number of the counter, due at a time.
    pub(crate) async fn add(&self, payload: &str, seconds: i64) -> Delivery {
        new(&self.count([document(payload)], seconds).await[0][0]).clone()
    }

    /// Draws numbers for [`ME`].
    pub(crate) async fn draw(&self, count: u64) -> Range<u64> {
        draw(&*self.store, self.type_id, count).await
    }

    /// The documents of a number, in any period.
    pub(crate) async fn documents_of(&self, serial: u64) -> Vec<DocumentRecord> {
        self.store.find_documents(self.type_id, None, serial).await.unwrap()
    }

    /// Which documents are meant: all of the type.
    pub(crate) fn documents(&self) -> DocumentFilter {
        let type_id = self.type_id;
        DocumentFilter { type_id, state: None, before: None, limit: 10_000 }
    }

    /// Documents, the latest first.
    pub(crate) async fn list_documents(&self, filter: &DocumentFilter) -> Vec<DocumentRecord> {
        self.store.documents(filter).await.unwrap()
    }

    /// Claims at most so many, in order.
    pub(crate) async fn claim_in_order(&self, limit: usize, seconds: i64) -> Vec<Delivery> {
        let wanted = Wanted { ordered: true, ..self.wanted(limit) };
        claim(&*self.store, &[wanted], seconds).await
    }

    /// An order to hold a number that [`ME`] has drawn.
    pub(crate) fn reservation(&self, serial: u64, expires: i64, seconds: i64) -> ReservationOrder {
        ReservationOrder {
            type_id: self.type_id,
            revision: 0,
            period: String::new(),
            holder: ME.to_owned(),
            id: (serial, id(serial)),
            key_id: 7,
            expires_at: at(expires),
            now: at(seconds),
        }
    }
}

/// The gaps that hold a serial, open or closed.
pub(crate) async fn gaps_at(store: &dyn Store, type_id: TypeId, serial: u64) -> Vec<Gap> {
    store.find_gaps(type_id, None, serial).await.unwrap()
}
