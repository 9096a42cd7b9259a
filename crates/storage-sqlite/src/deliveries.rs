//! Deliveries that are under way: from the record to the end of an attempt.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use storage::{Attempt, Delivery, DeliveryState, NewDelivery, Next, Outcome, ReceiverId, Wanted};

use crate::batches::limit;
use crate::error::StepResult;
use crate::outbox::{delivery_id, number};
use crate::time::Millis;

// Begins with what is pending and due, and goes on from there.
pub(crate) const DUE: &str = "
    SELECT number, receiver, attempts, token, created_at, key, subject, body
    FROM deliveries INDEXED BY deliveries_due
    CROSS JOIN contents ON contents.delivery = deliveries.number
    WHERE state = 'pending' AND receiver = ?1 AND due_at <= ?2 AND tenant = ?3
    ORDER BY due_at, number LIMIT ?4";

const TAKE: &str = "UPDATE deliveries SET attempts = ?2, token = ?3, due_at = ?4 WHERE number = ?1";

const SETTLE: &str = "
    UPDATE deliveries SET token = token + 1, state = ?3, due_at = ?4, settled_at = ?5,
        last_number = ?6, last_at = ?7, last_ms = ?8, last_status = ?9, last_error = ?10
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

/// What is sent, of a row that has it.
pub(crate) fn read_content(row: &Row<'_>) -> rusqlite::Result<NewDelivery> {
    Ok(NewDelivery {
        receiver: ReceiverId(row.get("receiver")?),
        key: row.get("key")?,
        subject: row.get("subject")?,
        body: row.get("body")?,
    })
}

/// A row as it is once it is claimed.
fn read_claim(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: delivery_id(row.get("number")?),
        content: read_content(row)?,
        attempt: row.get::<_, u32>("attempts")?.saturating_add(1),
        token: row.get::<_, i64>("token")? + 1,
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

/// Takes what is due.
pub(crate) fn claim(
    connection: &Connection,
    wanted: &[Wanted],
    now: Timestamp,
    until: Timestamp,
) -> StepResult<Vec<Delivery>> {
    let mut due = connection.prepare_cached(DUE)?;
    let mut take = connection.prepare_cached(TAKE)?;
    let mut claimed = Vec::new();
    for Wanted { receiver, tenant, limit: most } in wanted {
        let first = claimed.len();
        for delivery in
            due.query_map(params![receiver.0, Millis(now), tenant, limit(*most)], read_claim)?
        {
            claimed.push(delivery?);
        }
        // Only now, so that nothing moves in the index while it is read.
        for Delivery { id, attempt, token, .. } in &claimed[first..] {
            take.execute(params![id.number(), attempt, token, Millis(until)])?;
        }
    }
    Ok(claimed)
}

/// Notes how attempts went, and says for which that counted.
pub(crate) fn settle(
    connection: &Connection,
    outcomes: &[Outcome],
    now: Timestamp,
) -> StepResult<Vec<bool>> {
    let mut settle = connection.prepare_cached(SETTLE)?;
    let mut log = connection.prepare_cached(LOG)?;
    let mut counted = Vec::with_capacity(outcomes.len());
    for Outcome { delivery, token, attempt, next } in outcomes {
        let (state, due_at, settled_at) = match next {
            Next::Delivered => (DeliveryState::Delivered, None, Some(Millis(now))),
            Next::Retry(at) => (DeliveryState::Pending, Some(Millis(*at)), None),
            Next::Dead => (DeliveryState::Dead, None, Some(Millis(now))),
        };
        let Attempt { number: nth, at, duration, status, error } = attempt;
        let (id, at) = (number(*delivery), Millis(*at));
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let state = state.name();
        let settled = settle
            .execute(params![id, token, state, due_at, settled_at, nth, at, ms, status, error])?;
        if settled > 0 && error.is_some() {
            log.execute(params![id, nth, at, ms, status, error])?;
        }
        counted.push(settled > 0);
    }
    Ok(counted)
}
