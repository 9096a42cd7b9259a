//! The outbox: events and what has to be delivered.

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{
    Attempt, Delivery, DeliveryFilter, DeliveryId, DeliveryRecord, Event, NewDelivery, OutboxStore,
    Outcome, ReceiverId, Result, Verdict, Wanted,
};

use crate::orders::SHARD;
use crate::{SqliteStore, deliveries, delivery_records, events};

/// A number that no row has.
const NOWHERE: i64 = -1;

/// The ID of a row.
pub(crate) fn delivery_id(number: i64) -> DeliveryId {
    DeliveryId::new(number, SHARD)
}

/// The row of an ID.
pub(crate) fn number(id: DeliveryId) -> i64 {
    if id.shard() == SHARD { id.number() } else { NOWHERE }
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn events(&self, limit: usize) -> Result<Vec<Event>> {
        self.readers.run(move |connection| events::list(connection, limit)).await
    }

    async fn route_event(
        &self,
        event: DeliveryId,
        deliveries: &[NewDelivery],
        now: Timestamp,
    ) -> Result<bool> {
        let deliveries = deliveries.to_vec();
        self.writer.run(move |connection| events::route(connection, event, &deliveries, now)).await
    }

    async fn claim_deliveries(
        &self,
        wanted: &[Wanted],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Delivery>> {
        let wanted = wanted.to_vec();
        self.writer.run(move |connection| deliveries::claim(connection, &wanted, now, until)).await
    }

    async fn settle_deliveries(&self, outcomes: &[Outcome], now: Timestamp) -> Result<Vec<bool>> {
        let outcomes = outcomes.to_vec();
        self.writer.run(move |connection| deliveries::settle(connection, &outcomes, now)).await
    }

    async fn note_arrival(
        &self,
        id: DeliveryId,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<bool> {
        let attempt = attempt.clone();
        self.writer
            .run(move |connection| deliveries::note_arrival(connection, id, &attempt, now))
            .await
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<DeliveryRecord>> {
        let filter = filter.clone();
        self.readers.run(move |connection| delivery_records::list(connection, &filter)).await
    }

    async fn delivery(&self, id: DeliveryId) -> Result<Option<(DeliveryRecord, Vec<Attempt>)>> {
        self.readers.run(move |connection| delivery_records::look(connection, id)).await
    }

    async fn body_of(&self, id: DeliveryId) -> Result<Option<String>> {
        self.readers.run(move |connection| delivery_records::body(connection, id)).await
    }

    async fn decide_delivery(
        &self,
        id: DeliveryId,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<bool> {
        self.writer
            .run(move |connection| delivery_records::decide(connection, id, verdict, now))
            .await
    }

    async fn abandon_deliveries(
        &self,
        tenant: &str,
        receiver: ReceiverId,
        now: Timestamp,
    ) -> Result<u64> {
        let tenant = tenant.to_owned();
        self.writer
            .run(move |connection| delivery_records::abandon(connection, &tenant, receiver, now))
            .await
    }

    async fn forget_deliveries(&self, before: Timestamp, limit: usize) -> Result<u64> {
        self.writer.run(move |connection| delivery_records::forget(connection, before, limit)).await
    }
}
