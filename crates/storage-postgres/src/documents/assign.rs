//! Giving documents their numbers: one statement where nothing is known of them, as is almost always so.

use storage::{
    Assigned, Delivery, DocumentKey, DocumentOrder, KnownDocument, KnownDocuments, NewDelivery,
    NewDocument, Numbers, Plan, Result, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::columns::{ASSIGN, ASSIGN_IN_ORDER, Columns, Source};
use super::usual::TAKE_DRAWN;
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::corrupt;
use crate::outbox::consignments::TOKEN as CLAIMED_TOGETHER;
use crate::session::Param;
use crate::time::Time;

/// Once without a look at what is on record, once after it, and once more if somebody else has put the
/// same document on record in between.
const TRIES_MAX: usize = 3;

/// The token of what nobody has claimed.
const UNCLAIMED: i64 = 0;

/// The token of a claim that has a row of its own.
pub(super) const CLAIMED_ALONE: i64 = 1;

// What was sent stays where it is: there may be much of it, and only whether it is the same matters.
const KNOWN: &str = "
    SELECT new.place, known.number, known.key, known.body = new.payload AS is_same
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[])
        AS new (place, reference, request_key, payload)
    CROSS JOIN LATERAL (
        SELECT 1 AS rank, number, key, body FROM deliveries WHERE request_key = new.request_key
        UNION ALL
        SELECT 2, number, key, body FROM deliveries
        WHERE type_id = $1 AND reference = new.reference
        ORDER BY rank LIMIT 1) AS known";

/// An order, and what is known of its documents.
pub(super) struct Assignment<'a> {
    pub(super) order: &'a DocumentOrder,
    pub(super) shard: &'a Database,
    place: usize,
    known: KnownDocuments,
    /// Whether what is on record was looked at, or there is nothing to look for.
    looked: bool,
}

impl PostgresStore {
    pub(super) async fn assign(&self, order: &DocumentOrder) -> Result<Vec<Vec<Assigned>>> {
        let shard = self.shard(order.type_id)?;
        let place = order.type_id.0.rem_euclid(crate::NUMBER_STEP);
        let mut documents = order.requests.iter().flatten();
        let mut assignment = Assignment {
            order,
            shard,
            place: usize::try_from(place).map_err(|_| corrupt("a shard has a strange number"))?,
            known: KnownDocuments::default(),
            looked: documents.all(|new| new.reference.is_none() && new.request_key.is_none()),
        };
        for _ in 0..TRIES_MAX {
            let tried = match &order.numbers {
                Numbers::Drawn { holder, ids } => assignment.take_drawn(holder, ids).await,
                Numbers::Counter { bounds, render } => {
                    self.take_from_counter(&assignment, *bounds, render).await
                }
            };
            match tried {
                Ok(Some(assigned)) => return Ok(assigned),
                Ok(None) | Err(StoreError::Exists(_)) => assignment.look().await?,
                Err(problem) => return Err(problem),
            }
        }
        Err(StoreError::Unavailable("others put the same documents on record".to_owned()))
    }
}

impl<'a> Assignment<'a> {
    /// What becomes of the order, if there are so many numbers. None if that cannot be said without a
    /// look at what is on record.
    pub(super) fn plan(&self, room: u64) -> Option<Plan<'a>> {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let plan = Plan::new(&self.order.requests, &self.known, room);
        let documents: usize = self.order.requests.iter().map(Vec::len).sum();
        (self.looked || plan.new.len() == documents).then_some(plan)
    }

    /// Never repeated without knowing: if it was done, the numbers are not with the holder any more, and
    /// that would look as if somebody else had them.
    async fn take_drawn(
        &self,
        holder: &str,
        ids: &[(u64, String)],
    ) -> Result<Option<Vec<Vec<Assigned>>>> {
        let Some(plan) = self.plan(ids.len() as u64) else { return Ok(None) };
        if plan.new.is_empty() {
            self.check_type().await?;
            return Ok(Some(plan.outcome(Vec::new())));
        }
        let source = Source { holder: Some(holder), bounds: (0, 0) };
        let columns = Columns::new(self.order, source, &plan.new, ids)?;
        if self.order.in_order {
            let sql = ASSIGN_IN_ORDER;
            let rows = self.shard.query(Repeat::Undone, sql, &columns.params()).await?;
            return self.outcome(plan, ids, &rows, CLAIMED_ALONE);
        }
        if let Some(sql) = TAKE_DRAWN.of(self.order, plan.new.len()) {
            let rows = self.shard.query(Repeat::Undone, sql, &columns.params()).await?;
            if !rows.is_empty() {
                return self.outcome(plan, ids, &rows, CLAIMED_TOGETHER);
            }
        }
        let rows = self.shard.query(Repeat::Undone, ASSIGN, &columns.params()).await?;
        self.outcome(plan, ids, &rows, CLAIMED_ALONE)
    }

    /// What to answer. None if nothing was done. The token is that of the claims, if there are any.
    pub(super) fn outcome(
        &self,
        plan: Plan<'_>,
        ids: &[(u64, String)],
        rows: &[Row],
        token: i64,
    ) -> Result<Option<Vec<Vec<Assigned>>>> {
        if rows.is_empty() {
            return Ok(None);
        }
        if rows.len() != plan.new.len() {
            return Err(corrupt("some documents of an order came to nothing"));
        }
        let new = plan.new.iter().zip(ids).zip(rows);
        let token = if self.order.claimed_until.is_some() { token } else { UNCLAIMED };
        let deliveries = new
            .map(|((document, number), row)| self.delivery(document, number, row, token))
            .collect();
        Ok(Some(plan.outcome(deliveries)))
    }

    fn delivery(
        &self,
        document: &NewDocument,
        (serial, id): &(u64, String),
        row: &Row,
        token: i64,
    ) -> Delivery {
        let order = self.order;
        Delivery {
            id: PostgresStore::delivery_on(self.place, row.get("its_number")),
            content: NewDelivery {
                receiver: order.sink,
                key: id.clone(),
                subject: row.get("its_subject"),
                body: document.payload.clone(),
            },
            document: Some(DocumentKey {
                type_id: order.type_id,
                period: order.period.clone(),
                serial: *serial,
            }),
            attempt: u32::from(order.claimed_until.is_some()),
            failures: 0,
            token,
            created_at: Time::new(order.now).0,
        }
    }

    /// Looks up what is on record of the documents.
    async fn look(&mut self) -> Result<()> {
        let (mut places, mut payloads) = (Vec::new(), Vec::new());
        let (mut references, mut keys) = (Vec::new(), Vec::new());
        for (place, new) in (0_i64..).zip(self.order.requests.iter().flatten()) {
            if new.reference.is_some() || new.request_key.is_some() {
                places.push(place);
                references.push(new.reference.as_deref());
                keys.push(new.request_key.as_deref());
                payloads.push(new.payload.as_str());
            }
        }
        let params: [Param<'_>; 5] = [
            (&self.order.type_id.0, Type::INT8),
            (&places, Type::INT8_ARRAY),
            (&references, Type::TEXT_ARRAY),
            (&keys, Type::TEXT_ARRAY),
            (&payloads, Type::TEXT_ARRAY),
        ];
        let rows = self.shard.query(Repeat::Always, KNOWN, &params).await?;
        let found = rows.iter().map(|row| {
            let place = usize::try_from(row.get::<_, i64>("place"));
            let place = place.map_err(|_| corrupt("a document has a strange place"))?;
            let found = KnownDocument {
                delivery: PostgresStore::delivery_on(self.place, row.get("number")),
                id: row.get("key"),
                is_same: row.get("is_same"),
            };
            Ok((place, found))
        });
        self.known = found.collect::<Result<_>>()?;
        self.looked = true;
        Ok(())
    }

    /// That the type is as the order takes it to be, where no statement has said so.
    pub(super) async fn check_type(&self) -> Result<()> {
        let sql = "SELECT revision FROM id_types WHERE id = $1 AND NOT retired";
        let params: [Param<'_>; 1] = [(&self.order.type_id.0, Type::INT8)];
        let rows = self.shard.query(Repeat::Always, sql, &params).await?;
        match rows.first().map(|row| row.get::<_, i64>(0)) {
            None => Err(StoreError::NotFound("type")),
            Some(revision) if revision != self.order.revision => Err(StoreError::Stale),
            Some(_) => Ok(()),
        }
    }
}
