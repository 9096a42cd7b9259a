//! Deliveries on record: what is shown of them, what people decide, and what is forgotten.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    Attempt, DeliveryFilter, DeliveryId, DeliveryRecord, DeliveryState, DocumentKey, GapReason,
    ReceiverId, TypeId, Verdict,
};

use crate::batches::{limit, read_time};
use crate::deliveries::read_heading;
use crate::documents::{key_of, read_key};
use crate::error::{StepResult, corrupt};
use crate::gaps;
use crate::outbox::{delivery_id, number};
use crate::time::Millis;

const LIST: &str = "
    SELECT deliveries.*, key, subject FROM deliveries INDEXED BY deliveries_by_state
    CROSS JOIN contents ON contents.delivery = deliveries.number
    WHERE receiver = ?1 AND state = ?2 AND number < ?3 AND tenant = ?4
    ORDER BY number DESC LIMIT ?5";

fn read_state(name: &str) -> StepResult<DeliveryState> {
    let state = DeliveryState::ALL.into_iter().find(|state| state.name() == name);
    state.ok_or_else(|| corrupt(format!("a delivery is in the state {name:?}")))
}

/// An attempt in the columns with these names.
fn read_attempt(row: &Row<'_>, columns: [&str; 5]) -> rusqlite::Result<Attempt> {
    let [number, at, ms, status, error] = columns;
    Ok(Attempt {
        number: row.get(number)?,
        at: row.get::<_, Millis>(at)?.0,
        duration: Duration::from_millis(row.get(ms)?),
        status: row.get(status)?,
        error: row.get(error)?,
    })
}

/// A delivery in a row that has all its columns, and says what it is about.
pub(crate) fn read_row(row: &Row<'_>) -> StepResult<DeliveryRecord> {
    let last = match row.get::<_, Option<u32>>("last_number")? {
        Some(_) => {
            let columns = ["last_number", "last_at", "last_ms", "last_status", "last_error"];
            Some(read_attempt(row, columns)?)
        }
        None => None,
    };
    Ok(DeliveryRecord {
        id: delivery_id(row.get("number")?),
        content: read_heading(row)?,
        state: read_state(&row.get::<_, String>("state")?)?,
        attempts: row.get("attempts")?,
        last,
        due_at: read_time(row, "due_at")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
        settled_at: read_time(row, "settled_at")?,
    })
}

/// Deliveries to a receiver. The latest of each state, by its index, and of these the latest.
pub(crate) fn list(
    connection: &Connection,
    filter: &DeliveryFilter,
) -> StepResult<Vec<DeliveryRecord>> {
    let DeliveryFilter { tenant, receiver, state, before, limit: most } = filter;
    let before = before.map_or(i64::MAX, DeliveryId::number);
    let states = state.map_or(DeliveryState::ALL.to_vec(), |state| vec![state]);
    let mut statement = connection.prepare_cached(LIST)?;
    let mut found: Vec<DeliveryRecord> = Vec::new();
    for state in states {
        let params = params![receiver.0, state.name(), before, tenant, limit(*most)];
        for record in statement.query_and_then(params, read_row)? {
            found.push(record?);
        }
    }
    found.sort_by_key(|record| Reverse(record.id));
    found.truncate(*most);
    Ok(found)
}

/// A delivery and its failed attempts.
pub(crate) fn look(
    connection: &Connection,
    id: DeliveryId,
) -> StepResult<Option<(DeliveryRecord, Vec<Attempt>)>> {
    let found = connection
        .prepare_cached(
            "SELECT deliveries.*, key, subject FROM deliveries
             JOIN contents ON contents.delivery = deliveries.number WHERE number = ?1",
        )?
        .query_and_then([number(id)], read_row)?
        .next()
        .transpose()?;
    let Some(record) = found else { return Ok(None) };
    let attempts = connection
        .prepare_cached("SELECT * FROM attempts WHERE delivery = ?1 ORDER BY at, place")?
        .query_map([number(id)], |row| {
            read_attempt(row, ["number", "at", "ms", "status", "error"])
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some((record, attempts)))
}

/// What a delivery sends.
pub(crate) fn body(connection: &Connection, id: DeliveryId) -> StepResult<Option<String>> {
    let body = connection
        .prepare_cached("SELECT body FROM contents WHERE delivery = ?1")?
        .query_one([number(id)], |row| row.get(0))
        .optional()?;
    Ok(body)
}

/// Decides about a delivery. Abandoning ends a claim; there is none to be ended by a retry. A number
/// that is a gap stays one until its document has arrived.
pub(crate) fn decide(
    connection: &Connection,
    id: DeliveryId,
    verdict: Verdict,
    now: Timestamp,
) -> StepResult<bool> {
    let decided = connection
        .prepare_cached(match verdict {
            Verdict::Retry => {
                "UPDATE deliveries SET state = 'pending', attempts = 0, failures = 0, due_at = ?2,
                     settled_at = NULL
                 WHERE number = ?1 AND state <> 'pending'"
            }
            Verdict::Abandon => {
                "UPDATE deliveries SET state = 'abandoned', token = token + 1, due_at = NULL,
                     settled_at = ?2
                 WHERE number = ?1 AND state IN ('pending', 'dead')"
            }
        })?
        .execute(params![number(id), Millis(now)])?;
    if decided > 0
        && verdict == Verdict::Abandon
        && let Some(key) = key_of(connection, number(id))?
    {
        gaps::open_for(connection, &key, GapReason::Abandoned, now)?;
    }
    Ok(decided > 0)
}

/// Decides about documents of a type that are dead letters. Returns those that were.
pub(crate) fn decide_documents(
    connection: &Connection,
    type_id: TypeId,
    dead: &[DeliveryId],
    verdict: Verdict,
    now: Timestamp,
) -> StepResult<Vec<DeliveryId>> {
    let mut decided = Vec::with_capacity(dead.len());
    for id in dead {
        let is_dead = connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM deliveries
                     WHERE number = ?1 AND type_id = ?2 AND type_id > 0 AND state = 'dead')",
            )?
            .query_one(params![number(*id), type_id.0], |row| row.get(0))?;
        if is_dead && decide(connection, *id, verdict, now)? {
            decided.push(*id);
        }
    }
    Ok(decided)
}

/// Has documents of a type that are dead letters tried again at another sink. Returns those that were.
pub(crate) fn move_documents(
    connection: &Connection,
    type_id: TypeId,
    dead: &[DeliveryId],
    sink: ReceiverId,
    now: Timestamp,
) -> StepResult<Vec<DeliveryId>> {
    let moved = decide_documents(connection, type_id, dead, Verdict::Retry, now)?;
    let mut to =
        connection.prepare_cached("UPDATE deliveries SET receiver = ?2 WHERE number = ?1")?;
    for id in &moved {
        to.execute([number(*id), sink.0])?;
    }
    Ok(moved)
}

/// Gives up everything that is pending for a receiver, and counts it.
pub(crate) fn abandon(
    connection: &Connection,
    tenant: &str,
    receiver: ReceiverId,
    now: Timestamp,
) -> StepResult<u64> {
    let documents: Vec<DocumentKey> = connection
        .prepare_cached(
            "SELECT documents.type_id, period, serial
             FROM deliveries INDEXED BY deliveries_in_order
             CROSS JOIN documents ON documents.delivery = deliveries.number
             WHERE receiver = ?1 AND tenant = ?2 AND state = 'pending'
               AND deliveries.type_id > 0",
        )?
        .query_map(params![receiver.0, tenant], read_key)?
        .collect::<rusqlite::Result<_>>()?;
    let abandoned = connection
        .prepare_cached(
            "UPDATE deliveries SET state = 'abandoned', token = token + 1, due_at = NULL,
                 settled_at = ?3
             WHERE receiver = ?1 AND tenant = ?2 AND state = 'pending'",
        )?
        .execute(params![receiver.0, tenant, Millis(now)])?;
    for key in &documents {
        gaps::open_for(connection, key, GapReason::Abandoned, now)?;
    }
    Ok(abandoned as u64)
}

/// Forgets what was over before a time, and counts it. Contents and attempts go with it. Documents
/// stay: they are what their numbers are explained by.
pub(crate) fn forget(connection: &Connection, before: Timestamp, most: usize) -> StepResult<u64> {
    let forgotten = connection
        .prepare_cached(
            "DELETE FROM deliveries WHERE number IN (
                 SELECT number FROM deliveries INDEXED BY deliveries_over
                 WHERE state IN ('delivered', 'abandoned') AND type_id = 0 AND settled_at < ?1
                 ORDER BY settled_at LIMIT ?2)",
        )?
        .execute(params![Millis(before), limit(most)])?;
    Ok(forgotten as u64)
}
