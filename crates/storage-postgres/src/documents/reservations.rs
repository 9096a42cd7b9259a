//! Numbers that are held for somebody.

use futures_util::future::join_all;
use storage::{
    Confirmed, Delivery, DeliveryId, DocumentKey, NewDocument, ReceiverId, Reservation,
    ReservationId, ReservationOrder, ReservationState, Result, Span, StoreError, TypeId,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::columns::pack_one;
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::outbox::{read_delivery, records_sql, write_limit};
use crate::session::Param;
use crate::spans::{read_serial, write_serial};
use crate::time::Time;

const FIND: &str = "
    SELECT number, type_id, period, serial, id, key_id, state, expires_at, created_at
    FROM reservations WHERE number = $1";

// A counter has a row for each period, so there is one step in the index for each of them.
const AT_SERIAL: &str = "
    SELECT held.* FROM counters CROSS JOIN LATERAL (
        SELECT number, type_id, period, serial, id, key_id, state, expires_at, created_at
        FROM reservations
        WHERE reservations.type_id = counters.type_id AND reservations.period = counters.period
          AND reservations.serial = $3) AS held
    WHERE counters.type_id = $1 AND ($2::text IS NULL OR counters.period = $2)
    ORDER BY counters.period";

const CONFIRM: &str = "
    SELECT outcome, figure, other FROM confirm_reservation($1, $2, $3, $4, $5, $6, $7, $8)";

const CONFIRM_IN_ORDER: &str = "
    SELECT outcome, figure, other FROM confirm_in_order($1, $2, $3, $4, $5, $6, $7, $8)";

fn read_state(name: &str) -> Result<ReservationState> {
    let known = ReservationState::ALL.into_iter().find(|state| state.name() == name);
    known.ok_or_else(|| corrupt(format!("a reservation has the unknown state {name:?}")))
}

fn read(row: &Row, id: ReservationId) -> Result<Reservation> {
    Ok(Reservation {
        id,
        key: DocumentKey {
            type_id: TypeId(row.get("type_id")),
            period: row.get("period"),
            serial: read_serial(row.get("serial"))?,
        },
        text: row.get("id"),
        state: read_state(row.get("state"))?,
        key_id: row.get("key_id"),
        expires_at: row.get::<_, Time>("expires_at").0,
        created_at: row.get::<_, Time>("created_at").0,
    })
}

/// A reservation has its number and its shard in the same places as a delivery.
fn place_of(id: ReservationId) -> DeliveryId {
    DeliveryId(id.0)
}

/// The shard of a type.
fn place_of_type(type_id: TypeId) -> Result<usize> {
    let place = usize::try_from(type_id.0.rem_euclid(crate::NUMBER_STEP));
    place.map_err(|_| corrupt("a shard has a strange number"))
}

impl PostgresStore {
    fn shard_of_reservation(&self, id: ReservationId) -> Option<&Database> {
        self.databases.get(usize::from(place_of(id).shard()))
    }

    /// Never repeated without knowing: if it was done, the number is not with the holder any more.
    pub(super) async fn hold(&self, order: &ReservationOrder) -> Result<Reservation> {
        let (serial, text) = &order.id;
        let (expires_at, now) = (Time::new(order.expires_at), Time::new(order.now));
        let rows = self
            .shard(order.type_id)?
            .query(
                Repeat::Undone,
                "SELECT reserve_serial($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    (&order.type_id.0, Type::INT8),
                    (&order.revision, Type::INT8),
                    (&order.period, Type::TEXT),
                    (&order.holder, Type::TEXT),
                    (&write_serial(*serial)?, Type::INT8),
                    (text, Type::TEXT),
                    (&order.key_id, Type::INT8),
                    (&expires_at, Type::TIMESTAMPTZ),
                    (&now, Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        let row = rows.first().ok_or_else(|| corrupt("a reservation came to nothing"))?;
        Ok(Reservation {
            id: ReservationId(Self::delivery_on(place_of_type(order.type_id)?, row.get(0)).0),
            key: DocumentKey {
                type_id: order.type_id,
                period: order.period.clone(),
                serial: *serial,
            },
            text: text.clone(),
            state: ReservationState::Held,
            key_id: order.key_id,
            expires_at: expires_at.0,
            created_at: now.0,
        })
    }

    pub(super) async fn held(&self, id: ReservationId) -> Result<Option<Reservation>> {
        let Some(shard) = self.shard_of_reservation(id) else { return Ok(None) };
        let params: [Param<'_>; 1] = [(&place_of(id).number(), Type::INT8)];
        let rows = shard.query(Repeat::Always, FIND, &params).await?;
        rows.first().map(|row| read(row, id)).transpose()
    }

    /// Reservations of a number.
    pub(super) async fn reservations_at(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Reservation>> {
        let (Ok(serial), Some(shard)) = (i64::try_from(serial), self.shard_of(type_id)) else {
            return Ok(Vec::new());
        };
        let params: [Param<'_>; 3] =
            [(&type_id.0, Type::INT8), (&period, Type::TEXT), (&serial, Type::INT8)];
        let rows = shard.query(Repeat::Always, AT_SERIAL, &params).await?;
        let place = place_of_type(type_id)?;
        let id = |row: &Row| ReservationId(Self::delivery_on(place, row.get("number")).0);
        rows.iter().map(|row| read(row, id(row))).collect()
    }

    /// Repeated without knowing: the second time finds that the document has the number.
    pub(super) async fn confirm(
        &self,
        id: ReservationId,
        document: &NewDocument,
        sink: ReceiverId,
        in_order: bool,
        now: Time,
    ) -> Result<Confirmed> {
        let missing = || StoreError::NotFound("reservation");
        let shard = self.shard_of_reservation(id).ok_or_else(missing)?;
        let held = self.held(id).await?.ok_or_else(missing)?;
        let log_entry = pack_one(held.key.serial, document.key_id, now);
        let params: [Param<'_>; 8] = [
            (&place_of(id).number(), Type::INT8),
            (&document.payload, Type::TEXT),
            (&document.reference, Type::TEXT),
            (&document.request_key, Type::TEXT),
            (&document.key_id, Type::INT8),
            (&sink.0, Type::INT8),
            (&log_entry, Type::BYTEA),
            (&now, Type::TIMESTAMPTZ),
        ];
        let sql = if in_order { CONFIRM_IN_ORDER } else { CONFIRM };
        let rows = match shard.query(Repeat::Always, sql, &params).await {
            // Somebody else has put a document with this reference on record just now.
            Err(StoreError::Exists(_)) => shard.query(Repeat::Always, sql, &params).await?,
            other => other?,
        };
        let row = rows.first().ok_or_else(|| corrupt("a confirmation came to nothing"))?;
        let other = || row.get::<_, Option<&str>>("other").unwrap_or_default();
        match row.get("outcome") {
            "done" => {
                let number = row.get::<_, Option<i64>>("figure").unwrap_or_default();
                let delivery = DeliveryId::new(number, place_of(id).shard());
                let delivery = confirmed(shard, delivery, document).await;
                Ok(Confirmed::Done(delivery.map_err(error::heard_of)?))
            }
            "conflict" => Ok(Confirmed::Conflict { id: other().to_owned() }),
            "not_held" => Ok(Confirmed::NotHeld(read_state(other())?)),
            _ => Err(missing()),
        }
    }

    /// Repeated without knowing: a number that was given up stays given up.
    pub(super) async fn release(
        &self,
        id: ReservationId,
        now: Time,
    ) -> Result<Option<Reservation>> {
        let Some(shard) = self.shard_of_reservation(id) else { return Ok(None) };
        let params: [Param<'_>; 2] =
            [(&place_of(id).number(), Type::INT8), (&now, Type::TIMESTAMPTZ)];
        shard.query(Repeat::Always, "SELECT release_reservation($1, $2)", &params).await?;
        self.held(id).await.map_err(error::heard_of)
    }

    /// All shards are asked, whatever becomes of the others. After an error what was found elsewhere is
    /// on record, and only not told.
    pub(super) async fn expire(&self, now: Time, limit: usize) -> Result<Vec<Span>> {
        let shards = self.databases.iter().map(|shard| expire_on(shard, now, limit));
        let spans = join_all(shards).await.into_iter().collect::<Result<Vec<Vec<Span>>>>();
        let spans = spans.map_err(error::heard_of)?;
        Ok(spans.into_iter().flatten().collect())
    }
}

/// The delivery of a document that has its number by now.
async fn confirmed(shard: &Database, id: DeliveryId, document: &NewDocument) -> Result<Delivery> {
    let params: [Param<'_>; 1] = [(&id.number(), Type::INT8)];
    let sql = records_sql("SELECT $1 AS number", "true");
    let rows = shard.query(Repeat::Always, &sql, &params).await?;
    let row = rows.first().ok_or_else(|| corrupt("a document that was confirmed is not there"))?;
    read_delivery(row, id, document.payload.clone())
}

async fn expire_on(shard: &Database, now: Time, limit: usize) -> Result<Vec<Span>> {
    let sql = "SELECT its_type, its_period, its_serial FROM expire_reservations($1, $2)";
    let params: [Param<'_>; 2] = [(&write_limit(limit), Type::INT8), (&now, Type::TIMESTAMPTZ)];
    let rows = shard.query(Repeat::Undone, sql, &params).await?;
    let spans = rows.iter().map(|row| {
        let serial = read_serial(row.get("its_serial"))?;
        Ok(Span {
            type_id: TypeId(row.get("its_type")),
            period: row.get("its_period"),
            serials: serial..serial + 1,
        })
    });
    spans.collect()
}
