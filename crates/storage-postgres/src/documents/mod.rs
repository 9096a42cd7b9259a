//! Documents and reservations. They are on the shard of their type, and the numbers of their deliveries
//! say which one that is.

mod assign;
mod columns;
mod counter;
mod dead;
mod records;
mod reservations;
mod usual;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{
    Assigned, Confirmed, DeliveryId, DocumentFilter, DocumentOrder, DocumentRecord, DocumentStore,
    NewDocument, ReceiverId, Reservation, ReservationId, ReservationOrder, Result, Span, TypeId,
    Verdict,
};

pub(crate) use counter::Stands;

use crate::PostgresStore;
use crate::time::Time;

#[async_trait]
impl DocumentStore for PostgresStore {
    async fn assign_documents(&self, order: &Arc<DocumentOrder>) -> Result<Vec<Vec<Assigned>>> {
        self.assign(order).await
    }

    async fn find_documents(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<DocumentRecord>> {
        self.documents_at(type_id, period, serial).await
    }

    async fn written_ids(
        &self,
        type_id: TypeId,
        numbers: &[(String, u64)],
    ) -> Result<Vec<Option<String>>> {
        self.ids_at(type_id, numbers).await
    }

    async fn documents(&self, filter: &DocumentFilter) -> Result<Vec<DocumentRecord>> {
        self.list_documents(filter).await
    }

    async fn dead_documents(
        &self,
        types: &[TypeId],
        after: Option<(TypeId, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>> {
        self.dead_of_types(types, after, limit).await
    }

    async fn decide_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        self.decide_dead(type_id, dead, verdict, Time::new(now)).await
    }

    async fn move_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        sink: ReceiverId,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        self.move_dead(type_id, dead, sink, Time::new(now)).await
    }

    async fn reserve(&self, order: &ReservationOrder) -> Result<Reservation> {
        self.hold(order).await
    }

    async fn reservation(&self, id: ReservationId) -> Result<Option<Reservation>> {
        self.held(id).await
    }

    async fn find_reservations(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Reservation>> {
        self.reservations_at(type_id, period, serial).await
    }

    async fn confirm_reservation(
        &self,
        id: ReservationId,
        document: &NewDocument,
        sink: ReceiverId,
        in_order: bool,
        now: Timestamp,
    ) -> Result<Confirmed> {
        self.confirm(id, document, sink, in_order, Time::new(now)).await
    }

    async fn release_reservation(
        &self,
        id: ReservationId,
        now: Timestamp,
    ) -> Result<Option<Reservation>> {
        self.release(id, Time::new(now)).await
    }

    async fn expire_reservations(&self, now: Timestamp, limit: usize) -> Result<Vec<Span>> {
        self.expire(Time::new(now), limit).await
    }
}
