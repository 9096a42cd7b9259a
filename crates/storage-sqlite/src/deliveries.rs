//! Deliveries that are under way: from the record to the end of an attempt.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    Attempt, Delivery, DeliveryId, DeliveryState, GapReason, Heading, NewDelivery, Next, Outcome,
    ReceiverId, Wanted,
};

use crate::batches::limit;
use crate::documents::{key_of, read_key};
use crate::error::StepResult;
use crate::gaps;
use crate::outbox::{delivery_id, number};
use crate::time::Millis;

/// The type of deliveries that are no documents.
pub(crate) const NO_TYPE: i64 = 0;

// Begins with what is pending and due, and goes on from there.
pub(crate) const DUE: &str = "
    SELECT number, receiver, attempts, failures, token, created_at, key, subject, body,
           deliveries.type_id, period, serial
    FROM deliveries INDEXED BY deliveries_due
    CROSS JOIN contents ON contents.delivery = deliveries.number
    LEFT JOIN documents ON documents.delivery = deliveries.number
    WHERE state = 'pending' AND receiver = ?1 AND due_at <= ?2 AND tenant = ?3
    ORDER BY due_at, number LIMIT ?4";

// One step in the index for each type that has anything pending.
pub(crate) const NEXT_TYPE: &str = "
    SELECT type_id FROM deliveries INDEXED BY deliveries_in_order
    WHERE state = 'pending' AND receiver = ?1 AND type_id > ?2
    ORDER BY type_id LIMIT 1";

pub(crate) const IN_ORDER: &str = "
    SELECT number, due_at FROM deliveries INDEXED BY deliveries_in_order
    WHERE state = 'pending' AND receiver = ?1 AND type_id = ?2 AND tenant = ?3
    ORDER BY number LIMIT ?4";

const ONE: &str = "
    SELECT number, receiver, attempts, failures, token, created_at, key, subject, body,
           deliveries.type_id, period, serial
    FROM deliveries
    CROSS JOIN contents ON contents.delivery = deliveries.number
    LEFT JOIN documents ON documents.delivery = deliveries.number
    WHERE number = ?1";

const TAKE: &str = "UPDATE deliveries SET attempts = ?2, token = ?3, due_at = ?4 WHERE number = ?1";

const SETTLE: &str = "
    UPDATE deliveries SET token = token + 1, state = ?3, due_at = ?4, settled_at = ?5,
        failures = failures + (?10 IS NOT NULL),
        last_number = ?6, last_at = ?7, last_ms = ?8, last_status = ?9, last_error = ?10
    WHERE number = ?1 AND token = ?2 RETURNING type_id";

// One that had arrived before is pending because somebody wants it sent once more.
const ARRIVE: &str = "
    UPDATE deliveries SET token = token + 1, state = 'delivered', due_at = NULL, settled_at = ?2,
        attempts = max(attempts, ?3), last_number = ?3, last_at = ?4, last_ms = ?5, last_status = ?6, last_error = NULL
    WHERE number = ?1 AND state <> 'delivered'
      AND (state <> 'pending' OR last_number IS NULL OR last_error IS NOT NULL)";

const UNTRIED: &str = "
    UPDATE deliveries SET token = token + 1, attempts = attempts - 1, due_at = ?3
    WHERE number = ?1 AND token = ?2";

const LOG: &str = "
    INSERT INTO attempts (delivery, place, number, at, ms, status, error)
    SELECT ?1, 1 + coalesce(max(place), 0), ?2, ?3, ?4, ?5, ?6 FROM attempts WHERE delivery = ?1";

/// Puts a delivery on record, due at once.
pub(crate) fn insert(
    connection: &Connection,
    tenant: &str,
    message: &NewDelivery,
    now: Timestamp,
) -> StepResult<()> {
    let NewDelivery { receiver, key, subject, body } = message;
    connection
        .prepare_cached(
            "INSERT INTO deliveries (tenant, receiver, due_at, created_at)
             VALUES (?1, ?2, ?3, ?3)",
        )?
        .execute(params![tenant, receiver.0, Millis(now)])?;
    connection
        .prepare_cached(
            "INSERT INTO contents (delivery, key, subject, body) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![connection.last_insert_rowid(), key, subject, body])?;
    Ok(())
}

/// What a delivery is about.
pub(crate) fn read_heading(row: &Row<'_>) -> rusqlite::Result<Heading> {
    Ok(Heading {
        receiver: ReceiverId(row.get("receiver")?),
        key: row.get("key")?,
        subject: row.get("subject")?,
    })
}

/// A row as it is on record.
fn read_row(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let is_document = row.get::<_, i64>("type_id")? > NO_TYPE;
    Ok(Delivery {
        id: delivery_id(row.get("number")?),
        content: read_heading(row)?.with(row.get("body")?),
        document: if is_document { Some(read_key(row)?) } else { None },
        attempt: row.get("attempts")?,
        failures: row.get("failures")?,
        token: row.get("token")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

/// A row as it is once it is claimed.
fn read_claim(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let found = read_row(row)?;
    Ok(Delivery { attempt: found.attempt.saturating_add(1), token: found.token + 1, ..found })
}

/// The delivery of a document as it is on record.
pub(crate) fn find(connection: &Connection, number: i64) -> StepResult<Option<Delivery>> {
    Ok(connection.prepare_cached(ONE)?.query_one([number], read_row).optional()?)
}

/// Takes what is due.
pub(crate) fn claim(
    connection: &Connection,
    wanted: &[Wanted],
    now: Timestamp,
    until: Timestamp,
) -> StepResult<Vec<Delivery>> {
    let mut take = connection.prepare_cached(TAKE)?;
    let mut claimed = Vec::new();
    for wanted in wanted {
        let first = claimed.len();
        claimed.extend(if wanted.ordered {
            due_in_order(connection, wanted, now)?
        } else {
            due(connection, wanted, now)?
        });
        // Only now, so that nothing moves in the index while it is read.
        for Delivery { id, attempt, token, .. } in &claimed[first..] {
            take.execute(params![id.number(), attempt, token, Millis(until)])?;
        }
    }
    Ok(claimed)
}

/// A claim for a receiver ends behind the delivery that goes beyond this: large ones come in several.
const CLAIM_BYTES_MAX: usize = 16 << 20;

/// What is due, the longest due first.
fn due(connection: &Connection, wanted: &Wanted, now: Timestamp) -> StepResult<Vec<Delivery>> {
    let Wanted { receiver, tenant, limit: most, .. } = wanted;
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query(params![receiver.0, Millis(now), tenant, limit(*most)])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < CLAIM_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let delivery = read_claim(row)?;
        bytes += delivery.content.body.len();
        found.push(delivery);
    }
    Ok(found)
}

/// What is due of each type, up to the first one that is not: that one holds up those behind it.
/// Between types, whatever was put on record first.
fn due_in_order(
    connection: &Connection,
    wanted: &Wanted,
    now: Timestamp,
) -> StepResult<Vec<Delivery>> {
    let Wanted { receiver, tenant, limit: most, .. } = wanted;
    let mut next_type = connection.prepare_cached(NEXT_TYPE)?;
    let mut in_order = connection.prepare_cached(IN_ORDER)?;
    let mut numbers: Vec<i64> = Vec::new();
    // Deliveries that are no documents are a type of their own.
    let mut type_id = NO_TYPE - 1;
    while let Some(next) =
        next_type.query_one(params![receiver.0, type_id], |row| row.get(0)).optional()?
    {
        type_id = next;
        let mut rows = in_order.query(params![receiver.0, type_id, tenant, limit(*most)])?;
        while let Some(row) = rows.next()? {
            if row.get::<_, Millis>("due_at")?.0 > now {
                break;
            }
            numbers.push(row.get("number")?);
        }
    }
    numbers.sort_unstable();
    numbers.truncate(*most);
    // Only now, so that of many types no more is read than is claimed.
    let mut one = connection.prepare_cached(ONE)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for number in numbers {
        if bytes >= CLAIM_BYTES_MAX {
            break;
        }
        let delivery = one.query_one([number], read_claim)?;
        bytes += delivery.content.body.len();
        found.push(delivery);
    }
    Ok(found)
}

/// Notes how attempts went, and says for which that counted.
pub(crate) fn settle(
    connection: &Connection,
    outcomes: &[Outcome],
    now: Timestamp,
) -> StepResult<Vec<bool>> {
    outcomes.iter().map(|outcome| settle_one(connection, outcome, now)).collect()
}

fn settle_one(connection: &Connection, outcome: &Outcome, now: Timestamp) -> StepResult<bool> {
    let Outcome { delivery, token, attempt, next } = outcome;
    let id = number(*delivery);
    let (state, due_at, settled_at) = match next {
        Next::Delivered => (DeliveryState::Delivered, None, Some(Millis(now))),
        Next::Retry(at) => (DeliveryState::Pending, Some(Millis(*at)), None),
        Next::Dead => (DeliveryState::Dead, None, Some(Millis(now))),
        Next::Untried => {
            let mut untried = connection.prepare_cached(UNTRIED)?;
            return Ok(untried.execute(params![id, token, Millis(now)])? > 0);
        }
    };
    let Attempt { number: nth, at, status, error, .. } = attempt;
    let (at, ms) = (Millis(*at), write_ms(attempt));
    let state = state.name();
    let type_id: Option<i64> = connection
        .prepare_cached(SETTLE)?
        .query_one(
            params![id, token, state, due_at, settled_at, nth, at, ms, status, error],
            |row| row.get(0),
        )
        .optional()?;
    let Some(type_id) = type_id else { return Ok(false) };
    if error.is_some() {
        let mut log = connection.prepare_cached(LOG)?;
        log.execute(params![id, nth, at, ms, status, error])?;
    }
    if type_id > NO_TYPE
        && matches!(next, Next::Delivered | Next::Dead)
        && let Some(key) = key_of(connection, id)?
    {
        if *next == Next::Dead {
            gaps::open_for(connection, &key, GapReason::OutboxDlq, now)?;
        } else {
            gaps::close_for(connection, &key, now)?;
        }
    }
    Ok(true)
}

/// Notes that a delivery has arrived, whatever became of it since, and says whether that is news.
pub(crate) fn note_arrival(
    connection: &Connection,
    id: DeliveryId,
    attempt: &Attempt,
    now: Timestamp,
) -> StepResult<bool> {
    let (id, ms) = (number(id), write_ms(attempt));
    let Attempt { number: nth, at, status, .. } = attempt;
    let arrived = connection.prepare_cached(ARRIVE)?.execute(params![
        id,
        Millis(now),
        nth,
        Millis(*at),
        ms,
        status
    ])?;
    if arrived == 0 {
        return Ok(false);
    }
    if let Some(key) = key_of(connection, id)? {
        gaps::close_for(connection, &key, now)?;
    }
    Ok(true)
}

fn write_ms(attempt: &Attempt) -> i64 {
    i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX)
}
