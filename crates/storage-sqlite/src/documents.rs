//! Documents on record, and the trait that they and reservations answer to.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    Assigned, Confirmed, DeliveryId, DeliveryState, DocumentFilter, DocumentKey, DocumentOrder,
    DocumentRecord, DocumentStore, NewDocument, ReceiverId, Reservation, ReservationId,
    ReservationOrder, Result, Span, TypeId, Verdict,
};

use crate::batches::limit;
use crate::error::StepResult;
use crate::{SqliteStore, assigning, delivery_records, reservations};

// Every counter is a period in which the serial may be found.
const FIND: &str = "
    SELECT deliveries.*, contents.key, contents.subject, documents.* FROM counters
    CROSS JOIN documents INDEXED BY documents_by_serial
        ON documents.type_id = counters.type_id AND documents.period = counters.period
       AND documents.serial = ?3
    CROSS JOIN deliveries ON deliveries.number = documents.delivery
    CROSS JOIN contents ON contents.delivery = documents.delivery
    WHERE counters.type_id = ?1 AND (?2 IS NULL OR counters.period = ?2)
    ORDER BY counters.period";

const LIST: &str = "
    SELECT deliveries.*, contents.key, contents.subject, documents.*
    FROM deliveries INDEXED BY deliveries_of_type
    CROSS JOIN documents ON documents.delivery = deliveries.number
    CROSS JOIN contents ON contents.delivery = deliveries.number
    WHERE deliveries.type_id = ?1 AND deliveries.type_id > 0 AND state = ?2 AND number < ?3
    ORDER BY number DESC LIMIT ?4";

/// The number of a document in a row that has one.
pub(crate) fn read_key(row: &Row<'_>) -> rusqlite::Result<DocumentKey> {
    Ok(DocumentKey {
        type_id: TypeId(row.get("type_id")?),
        period: row.get("period")?,
        serial: row.get("serial")?,
    })
}

/// The number of the document of a delivery.
pub(crate) fn key_of(connection: &Connection, number: i64) -> StepResult<Option<DocumentKey>> {
    let key = connection
        .prepare_cached("SELECT type_id, period, serial FROM documents WHERE delivery = ?1")?
        .query_one([number], read_key)
        .optional()?;
    Ok(key)
}

fn read_row(row: &Row<'_>) -> StepResult<DocumentRecord> {
    Ok(DocumentRecord {
        key: read_key(row)?,
        reference: row.get("reference")?,
        key_id: row.get("key_id")?,
        delivery: delivery_records::read_row(row)?,
    })
}

fn find(
    connection: &Connection,
    type_id: TypeId,
    period: Option<&str>,
    serial: u64,
) -> StepResult<Vec<DocumentRecord>> {
    connection
        .prepare_cached(FIND)?
        .query_and_then(params![type_id.0, period, serial], read_row)?
        .collect()
}

/// The ID of a number that a document or a reservation has.
fn id_of(
    connection: &Connection,
    type_id: TypeId,
    (period, serial): &(String, u64),
) -> StepResult<Option<String>> {
    let id = connection
        .prepare_cached(
            "SELECT key FROM documents CROSS JOIN contents USING (delivery)
             WHERE type_id = ?1 AND period = ?2 AND serial = ?3
             UNION ALL
             SELECT text FROM reservations WHERE type_id = ?1 AND period = ?2 AND serial = ?3
             LIMIT 1",
        )?
        .query_one(params![type_id.0, period, serial], |row| row.get(0))
        .optional()?;
    Ok(id)
}

/// The latest of each state, by its index, and of these the latest.
fn list(connection: &Connection, filter: &DocumentFilter) -> StepResult<Vec<DocumentRecord>> {
    let DocumentFilter { type_id, state, before, limit: most } = filter;
    let before = before.map_or(i64::MAX, DeliveryId::number);
    let states = state.map_or(DeliveryState::ALL.to_vec(), |state| vec![state]);
    let mut statement = connection.prepare_cached(LIST)?;
    let mut found: Vec<DocumentRecord> = Vec::new();
    for state in states {
        let params = params![type_id.0, state.name(), before, limit(*most)];
        for record in statement.query_and_then(params, read_row)? {
            found.push(record?);
        }
    }
    found.sort_by_key(|record| Reverse(record.delivery.id));
    found.truncate(*most);
    Ok(found)
}

/// Dead letters of one type after the other, until there are enough.
fn list_dead(
    connection: &Connection,
    types: &[TypeId],
    after: Option<(TypeId, DeliveryId)>,
    most: usize,
) -> StepResult<Vec<DocumentRecord>> {
    let mut found: Vec<DocumentRecord> = Vec::new();
    for type_id in types.iter().copied() {
        if found.len() >= most {
            break;
        }
        let before = after.filter(|(begun, _)| *begun == type_id).map(|(_, id)| id);
        let (state, limit) = (Some(DeliveryState::Dead), most - found.len());
        found.extend(list(connection, &DocumentFilter { type_id, state, before, limit })?);
    }
    Ok(found)
}

#[async_trait]
impl DocumentStore for SqliteStore {
    async fn assign_documents(&self, order: &Arc<DocumentOrder>) -> Result<Vec<Vec<Assigned>>> {
        let order = Arc::clone(order);
        self.writer.run(move |connection| assigning::assign(connection, &order)).await
    }

    async fn find_documents(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<DocumentRecord>> {
        if i64::try_from(serial).is_err() {
            return Ok(Vec::new());
        }
        let period = period.map(str::to_owned);
        self.readers
            .run(move |connection| find(connection, type_id, period.as_deref(), serial))
            .await
    }

    async fn written_ids(
        &self,
        type_id: TypeId,
        numbers: &[(String, u64)],
    ) -> Result<Vec<Option<String>>> {
        let numbers = numbers.to_vec();
        self.readers
            .run(move |connection| {
                numbers.iter().map(|number| id_of(connection, type_id, number)).collect()
            })
            .await
    }

    async fn documents(&self, filter: &DocumentFilter) -> Result<Vec<DocumentRecord>> {
        let filter = filter.clone();
        self.readers.run(move |connection| list(connection, &filter)).await
    }

    async fn dead_documents(
        &self,
        types: &[TypeId],
        after: Option<(TypeId, DeliveryId)>,
        limit: usize,
    ) -> Result<Vec<DocumentRecord>> {
        let types = types.to_vec();
        self.readers.run(move |connection| list_dead(connection, &types, after, limit)).await
    }

    async fn decide_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        let dead = dead.to_vec();
        self.writer
            .run(move |connection| {
                delivery_records::decide_documents(connection, type_id, &dead, verdict, now)
            })
            .await
    }

    async fn move_documents(
        &self,
        type_id: TypeId,
        dead: &[DeliveryId],
        sink: ReceiverId,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>> {
        let dead = dead.to_vec();
        self.writer
            .run(move |connection| {
                delivery_records::move_documents(connection, type_id, &dead, sink, now)
            })
            .await
    }

    async fn reserve(&self, order: &ReservationOrder) -> Result<Reservation> {
        let order = order.clone();
        self.writer.run(move |connection| reservations::reserve(connection, &order)).await
    }

    async fn reservation(&self, id: ReservationId) -> Result<Option<Reservation>> {
        self.readers.run(move |connection| reservations::find(connection, id)).await
    }

    async fn find_reservations(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Reservation>> {
        if i64::try_from(serial).is_err() {
            return Ok(Vec::new());
        }
        let period = period.map(str::to_owned);
        self.readers
            .run(move |connection| {
                reservations::find_by_serial(connection, type_id, period.as_deref(), serial)
            })
            .await
    }

    async fn confirm_reservation(
        &self,
        id: ReservationId,
        document: &NewDocument,
        sink: ReceiverId,
        _in_order: bool,
        now: Timestamp,
    ) -> Result<Confirmed> {
        // One writer does everything, so whatever it does is in order.
        let document = document.clone();
        self.writer
            .run(move |connection| reservations::confirm(connection, id, &document, sink, now))
            .await
    }

    async fn release_reservation(
        &self,
        id: ReservationId,
        now: Timestamp,
    ) -> Result<Option<Reservation>> {
        self.writer.run(move |connection| reservations::release(connection, id, now)).await
    }

    async fn expire_reservations(&self, now: Timestamp, limit: usize) -> Result<Vec<Span>> {
        self.writer.run(move |connection| reservations::expire(connection, now, limit)).await
    }
}
