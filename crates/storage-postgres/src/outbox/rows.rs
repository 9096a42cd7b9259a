//! Deliveries and attempts as rows.

use std::time::Duration;

use storage::{
    Attempt, Delivery, DeliveryId, DeliveryRecord, DeliveryState, DocumentKey, Heading, ReceiverId,
    Result, TypeId,
};
use tokio_postgres::Row;

use crate::error::corrupt;
use crate::spans::read_serial;
use crate::time::Time;

/// A small number for the database. One that is too large to be true is as large as can be.
pub(super) fn write_small(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

pub(crate) fn write_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn write_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The number of a document, if the delivery is one of a document.
pub(crate) fn read_document(row: &Row) -> Result<Option<DocumentKey>> {
    let Some(type_id) = row.get("type_id") else { return Ok(None) };
    let serial = read_serial(row.get("serial"))?;
    Ok(Some(DocumentKey { type_id: TypeId(type_id), period: row.get("period"), serial }))
}

/// A delivery with its claim, and what it sends.
pub(crate) fn read_delivery(row: &Row, id: DeliveryId, body: String) -> Result<Delivery> {
    Ok(Delivery {
        id,
        content: read_heading(row).with(body),
        document: read_document(row)?,
        attempt: read_small(row, "attempts")?,
        failures: read_small(row, "failures")?,
        token: row.get("token"),
        created_at: row.get::<_, Time>("created_at").0,
    })
}

pub(super) fn read_small(row: &Row, column: &str) -> Result<u32> {
    let number: i32 = row.get(column);
    u32::try_from(number).map_err(|_| corrupt(format!("a delivery has {column} {number}")))
}

fn read_heading(row: &Row) -> Heading {
    Heading {
        receiver: ReceiverId(row.get("receiver")),
        key: row.get("key"),
        subject: row.get("subject"),
    }
}

/// An attempt, whose columns begin with `last_` in the record of a delivery.
pub(super) fn read_attempt(row: &Row, prefix: &str) -> Result<Attempt> {
    let column = |name: &str| format!("{prefix}{name}");
    let micros: i64 = row.get(column("us").as_str());
    let status: Option<i32> = row.get(column("status").as_str());
    let senseless = |_| corrupt("an attempt at a delivery makes no sense");
    Ok(Attempt {
        number: read_small(row, &column("attempt"))?,
        at: row.get::<_, Time>(column("at").as_str()).0,
        duration: Duration::from_micros(u64::try_from(micros).map_err(senseless)?),
        status: status.map(u16::try_from).transpose().map_err(senseless)?,
        error: row.get(column("error").as_str()),
    })
}

pub(crate) fn read_record(row: &Row, id: DeliveryId) -> Result<DeliveryRecord> {
    let time = |column| row.get::<_, Option<Time>>(column).map(|time| time.0);
    let state: &str = row.get("state");
    let known = DeliveryState::ALL.into_iter().find(|known| known.name() == state);
    let has_last = row.get::<_, Option<i32>>("last_attempt").is_some();
    Ok(DeliveryRecord {
        id,
        content: read_heading(row),
        state: known
            .ok_or_else(|| corrupt(format!("delivery {} has the unknown state {state:?}", id.0)))?,
        attempts: read_small(row, "attempts")?,
        last: has_last.then(|| read_attempt(row, "last_")).transpose()?,
        due_at: time("due_at"),
        created_at: row.get::<_, Time>("created_at").0,
        settled_at: time("settled_at"),
    })
}
