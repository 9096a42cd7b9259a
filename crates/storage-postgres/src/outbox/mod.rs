//! The outbox. Events and deliveries are on the shard of their tenant, and their numbers say which one
//! that is.

mod claim;
pub(crate) mod consignments;
mod events;
mod records;
mod rows;
mod settle;

use async_trait::async_trait;
use futures_util::future::join_all;
use jiff::Timestamp;
use storage::{
    Attempt, Delivery, DeliveryFilter, DeliveryId, DeliveryRecord, Event, NewDelivery, OutboxStore,
    Outcome, ReceiverId, Result, Verdict, Wanted,
};

pub(crate) use records::records_sql;
pub(crate) use rows::{read_delivery, read_document, read_record, write_limit};

use crate::PostgresStore;
use crate::database::Database;
use crate::error;
use crate::time::Time;

/// Deliveries that are given up in one transaction.
const ABANDONED_AT_ONCE: i64 = 10_000;

impl PostgresStore {
    /// Where the rows of a delivery or an event are, if there can be such a one.
    fn shard_of_delivery(&self, id: DeliveryId) -> Option<&Database> {
        self.databases.get(usize::from(id.shard()))
    }

    /// A number for the rows of a shard.
    pub(crate) fn delivery_on(shard: usize, number: i64) -> DeliveryId {
        DeliveryId::new(number, u16::try_from(shard).unwrap_or(u16::MAX))
    }
}

/// What those shards have that answer: one that does not keeps nobody from the work of the others. An
/// error only if there is nothing else to tell.
fn whatever_came<T>(answers: Vec<Result<Vec<T>>>) -> Result<Vec<T>> {
    let (mut all, mut failed) = (Vec::new(), None);
    for answer in answers {
        match answer {
            Ok(some) => all.extend(some),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all),
    }
}

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn events(&self, limit: usize) -> Result<Vec<Event>> {
        let shards = self.databases.iter().enumerate();
        let answers = shards.map(|(place, shard)| events::list(shard, place, limit));
        whatever_came(join_all(answers).await)
    }

    async fn route_event(
        &self,
        event: DeliveryId,
        deliveries: &[NewDelivery],
        now: Timestamp,
    ) -> Result<bool> {
        let Some(shard) = self.shard_of_delivery(event) else { return Ok(false) };
        events::route(shard, event, deliveries, Time::new(now)).await
    }

    async fn claim_deliveries(
        &self,
        wanted: &[Wanted],
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Delivery>> {
        let tenants: Vec<&str> = wanted.iter().map(|wanted| wanted.tenant.as_str()).collect();
        let places = self.shards_of_tenants(&tenants).await?;
        let answers = self.databases.iter().enumerate().filter_map(|(place, shard)| {
            let its_own = wanted.iter().zip(&places).filter(|(_, its)| **its == Some(place));
            let its_own: Vec<&Wanted> = its_own.map(|(wanted, _)| wanted).collect();
            (!its_own.is_empty())
                .then(|| claim::claim(shard, place, its_own, Time::new(now), Time::new(until)))
        });
        whatever_came(join_all(answers).await)
    }

    async fn settle_deliveries(&self, outcomes: &[Outcome], now: Timestamp) -> Result<Vec<bool>> {
        self.settle(outcomes, Time::new(now)).await
    }

    async fn note_arrival(
        &self,
        id: DeliveryId,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(shard) = self.shard_of_delivery(id) else { return Ok(false) };
        settle::note_arrival(shard, id, attempt, Time::new(now)).await
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> Result<Vec<DeliveryRecord>> {
        let Some(place) = self.shard_of_tenant(&filter.tenant).await? else {
            return Ok(Vec::new());
        };
        records::list(&self.databases[place], place, filter).await
    }

    async fn delivery(&self, id: DeliveryId) -> Result<Option<(DeliveryRecord, Vec<Attempt>)>> {
        let Some(shard) = self.shard_of_delivery(id) else { return Ok(None) };
        records::one(shard, id).await
    }

    async fn body_of(&self, id: DeliveryId) -> Result<Option<String>> {
        let Some(shard) = self.shard_of_delivery(id) else { return Ok(None) };
        records::body(shard, id).await
    }

    async fn decide_delivery(
        &self,
        id: DeliveryId,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(shard) = self.shard_of_delivery(id) else { return Ok(false) };
        settle::decide(shard, id, verdict, Time::new(now)).await
    }

    /// Slice by slice, because there may be millions of them, and no transaction would be given the
    /// time to do them all. After an error the slices before it stay given up.
    async fn abandon_deliveries(
        &self,
        tenant: &str,
        receiver: ReceiverId,
        now: Timestamp,
    ) -> Result<u64> {
        let Some(place) = self.shard_of_tenant(tenant).await? else { return Ok(0) };
        let mut abandoned = 0;
        while let Some(more) = settle::abandon_some(
            &self.databases[place],
            tenant,
            receiver,
            ABANDONED_AT_ONCE,
            Time::new(now),
        )
        .await
        .map_err(error::heard_of)?
        {
            abandoned += more;
        }
        Ok(abandoned)
    }

    async fn forget_deliveries(&self, before: Timestamp, limit: usize) -> Result<u64> {
        let before = Time::new(before);
        let shards = self.databases.iter().map(|shard| settle::forget(shard, before, limit));
        // All of them, whatever becomes of the others.
        join_all(shards).await.into_iter().sum::<Result<u64>>().map_err(error::heard_of)
    }
}
