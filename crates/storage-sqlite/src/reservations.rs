//! Numbers that are held for somebody.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    Confirmed, Delivery, DeliveryId, DocumentKey, GapReason, NewDocument, ReceiverId, Reservation,
    ReservationId, ReservationOrder, ReservationState, Span, StoreError, TypeId,
};

use crate::assigning::{self, Post};
use crate::batches::limit;
use crate::documents::read_key;
use crate::error::{StepResult, corrupt};
use crate::outbox::{delivery_id, number};
use crate::time::Millis;
use crate::types::mark_used;
use crate::{counters, deliveries, draws, gaps};

const COLUMNS: &str =
    "number, type_id, period, serial, text, state, key_id, expires_at, created_at";

fn read_row(row: &Row<'_>) -> StepResult<Reservation> {
    let name: String = row.get("state")?;
    let state = ReservationState::ALL.into_iter().find(|state| state.name() == name);
    Ok(Reservation {
        // Like a delivery, it says on which shard it is.
        id: ReservationId(delivery_id(row.get("number")?).0),
        key: read_key(row)?,
        text: row.get("text")?,
        state: state.ok_or_else(|| corrupt(format!("a reservation is in the state {name:?}")))?,
        key_id: row.get("key_id")?,
        expires_at: row.get::<_, Millis>("expires_at")?.0,
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

/// The row of a reservation.
fn row_of(id: ReservationId) -> i64 {
    number(DeliveryId(id.0))
}

/// Holds a number.
pub(crate) fn reserve(
    connection: &Connection,
    order: &ReservationOrder,
) -> StepResult<Reservation> {
    let ReservationOrder { type_id, revision, period, holder, id, key_id, expires_at, now } = order;
    counters::check_revision(connection, *type_id, *revision)?;
    let (serial, text) = id;
    let span = Span { type_id: *type_id, period: period.clone(), serials: *serial..serial + 1 };
    if draws::take_off(connection, &span, Some(holder))?.is_empty() {
        return Err(StoreError::Stale.into());
    }
    mark_used(connection, *type_id)?;
    connection
        .prepare_cached(&format!(
            "INSERT INTO reservations (type_id, period, serial, text, key_id, expires_at,
                 created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING {COLUMNS}"
        ))?
        .query_and_then(
            params![type_id.0, period, serial, text, key_id, Millis(*expires_at), Millis(*now)],
            read_row,
        )?
        .next()
        .ok_or_else(|| corrupt("a reservation was not recorded"))?
}

/// A reservation as it is on record.
pub(crate) fn find(connection: &Connection, id: ReservationId) -> StepResult<Option<Reservation>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM reservations WHERE number = ?1"))?
        .query_and_then([row_of(id)], read_row)?
        .next()
        .transpose()
}

// Every counter is a period in which the serial may be found.
const FIND_BY_SERIAL: &str = "
    SELECT reservations.* FROM counters
    CROSS JOIN reservations INDEXED BY reservations_by_serial
        ON reservations.type_id = counters.type_id AND reservations.period = counters.period
       AND reservations.serial = ?3
    WHERE counters.type_id = ?1 AND (?2 IS NULL OR counters.period = ?2)
    ORDER BY counters.period";

/// Reservations of a number.
pub(crate) fn find_by_serial(
    connection: &Connection,
    type_id: TypeId,
    period: Option<&str>,
    serial: u64,
) -> StepResult<Vec<Reservation>> {
    connection
        .prepare_cached(FIND_BY_SERIAL)?
        .query_and_then(params![type_id.0, period, serial], read_row)?
        .collect()
}

/// A reservation as it is at a time: one whose time has run out is not held, whether or not somebody
/// has noticed before.
fn find_at(
    connection: &Connection,
    id: ReservationId,
    now: Timestamp,
) -> StepResult<Option<Reservation>> {
    let Some(mut found) = find(connection, id)? else { return Ok(None) };
    if found.state == ReservationState::Held && found.expires_at <= now {
        give_up(connection, &mut found, ReservationState::Expired, now)?;
    }
    Ok(Some(found))
}

/// Makes a gap of a number that is held.
fn give_up(
    connection: &Connection,
    reservation: &mut Reservation,
    state: ReservationState,
    now: Timestamp,
) -> StepResult<Span> {
    let reason = match state {
        ReservationState::Expired => GapReason::ReservationExpired,
        _ => GapReason::ReservationReleased,
    };
    connection
        .prepare_cached("UPDATE reservations SET state = ?2 WHERE number = ?1")?
        .execute(params![row_of(reservation.id), state.name()])?;
    reservation.state = state;
    let DocumentKey { type_id, period, serial } = reservation.key.clone();
    let span = Span { type_id, period, serials: serial..serial + 1 };
    let lost_at = now.min(reservation.expires_at);
    // No instance has lost it.
    gaps::insert_lost(connection, &span, reason, now, "", Some(lost_at))?;
    Ok(span)
}

/// Gives a document the number that is held for it.
pub(crate) fn confirm(
    connection: &Connection,
    id: ReservationId,
    document: &NewDocument,
    sink: ReceiverId,
    now: Timestamp,
) -> StepResult<Confirmed> {
    let reservation = find_at(connection, id, now)?.ok_or(StoreError::NotFound("reservation"))?;
    match reservation.state {
        ReservationState::Held => {}
        ReservationState::Confirmed => {
            let before = document_of(connection, id)?;
            let same = before.content.body == document.payload;
            let other = Confirmed::NotHeld(ReservationState::Confirmed);
            return Ok(if same { Confirmed::Done(before) } else { other });
        }
        state => return Ok(Confirmed::NotHeld(state)),
    }
    if let Some(other) = assigning::find_same(connection, reservation.key.type_id, document)? {
        return Ok(Confirmed::Conflict { id: other.id });
    }
    let DocumentKey { type_id, period, serial } = &reservation.key;
    let number = [(*serial, document.key_id)];
    assigning::log(connection, (*type_id, period), number.into_iter(), now)?;
    let post = Post::new(connection, *type_id, sink, None, now)?;
    let delivery = post.put(connection, reservation.key, reservation.text, document)?;
    connection
        .prepare_cached(
            "UPDATE reservations SET state = 'confirmed', delivery = ?2 WHERE number = ?1",
        )?
        .execute([row_of(id), delivery.id.number()])?;
    Ok(Confirmed::Done(delivery))
}

/// The document of a reservation that was confirmed.
fn document_of(connection: &Connection, id: ReservationId) -> StepResult<Delivery> {
    let delivery: Option<i64> = connection
        .prepare_cached("SELECT delivery FROM reservations WHERE number = ?1")?
        .query_one([row_of(id)], |row| row.get(0))
        .optional()?
        .flatten();
    let lost = || corrupt(format!("reservation {} is confirmed without a document", id.0));
    deliveries::find(connection, delivery.ok_or_else(lost)?)?.ok_or_else(lost)
}

/// Gives a number up that is held.
pub(crate) fn release(
    connection: &Connection,
    id: ReservationId,
    now: Timestamp,
) -> StepResult<Option<Reservation>> {
    let Some(mut found) = find_at(connection, id, now)? else { return Ok(None) };
    if found.state == ReservationState::Held {
        give_up(connection, &mut found, ReservationState::Released, now)?;
    }
    Ok(Some(found))
}

/// Makes gaps of numbers whose time has run out, those that did so first.
pub(crate) fn expire(
    connection: &Connection,
    now: Timestamp,
    most: usize,
) -> StepResult<Vec<Span>> {
    let over: Vec<Reservation> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM reservations INDEXED BY reservations_held
             WHERE state = 'held' AND expires_at <= ?1 ORDER BY expires_at, number LIMIT ?2"
        ))?
        .query_and_then(params![Millis(now), limit(most)], read_row)?
        .collect::<StepResult<_>>()?;
    over.into_iter()
        .map(|mut found| give_up(connection, &mut found, ReservationState::Expired, now))
        .collect()
}
