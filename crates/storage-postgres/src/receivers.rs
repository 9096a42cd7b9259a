//! Receivers. They are in the catalogue, because every instance keeps all of them in memory.

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{NewReceiver, Purpose, Receiver, ReceiverId, ReceiverStore, Result, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::batches::read_void;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::time::Time;

const LIST: &str = "
    SELECT id, tenant, purpose, name, settings, revision, disabled_at, disabled_reason, created_at
    FROM receivers ORDER BY id";

// A conflict changes nothing and so returns no row.
const CREATE: &str = "
    WITH created AS (
        INSERT INTO receivers (tenant, purpose, name, settings, created_at)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, purpose, name) DO NOTHING
        RETURNING id, tenant, purpose, name, settings, revision, disabled_at, disabled_reason,
                  created_at
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM created)
    )
    SELECT * FROM created";

// No row if there is no such receiver, and one without a number if it has another revision.
const CHANGE: &str = "
    WITH changed AS (
        UPDATE receivers SET settings = $3, revision = revision + 1, disabled_at = NULL,
            disabled_reason = NULL
        WHERE id = $1 AND revision = $2
        RETURNING id, tenant, purpose, name, settings, revision, disabled_at, disabled_reason,
                  created_at
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM changed)
    )
    SELECT changed.* FROM receivers AS known LEFT JOIN changed ON true WHERE known.id = $1";

const DISABLE: &str = "
    WITH disabled AS (
        UPDATE receivers SET disabled_at = $3, disabled_reason = $2, revision = revision + 1
        WHERE id = $1 AND disabled_at IS NULL
        RETURNING id
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM disabled)
    )
    SELECT id FROM disabled";

const REMOVE: &str = "
    WITH removed AS (
        DELETE FROM receivers WHERE id = $1
        RETURNING id
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM removed)
    )
    SELECT id FROM removed";

fn read_receiver(row: &Row) -> Result<Receiver> {
    let purpose: &str = row.get("purpose");
    let known = Purpose::ALL.into_iter().find(|known| known.name() == purpose);
    let receiver = NewReceiver {
        tenant: row.get("tenant"),
        purpose: known
            .ok_or_else(|| corrupt(format!("a receiver has the unknown purpose {purpose:?}")))?,
        name: row.get("name"),
        settings: row.get("settings"),
    };
    Ok(Receiver {
        id: ReceiverId(row.get("id")),
        receiver,
        revision: row.get("revision"),
        disabled: read_void(row, "disabled_at", "disabled_reason"),
        created_at: row.get::<_, Time>("created_at").0,
    })
}

#[async_trait]
impl ReceiverStore for PostgresStore {
    async fn list_receivers(&self) -> Result<Vec<Receiver>> {
        let rows = self.catalogue().query(Repeat::Always, LIST, &[]).await?;
        rows.iter().map(read_receiver).collect()
    }

    async fn create_receiver(&self, receiver: &NewReceiver, now: Timestamp) -> Result<Receiver> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Undone,
                CREATE,
                &[
                    (&receiver.tenant, Type::TEXT),
                    (&receiver.purpose.name(), Type::TEXT),
                    (&receiver.name, Type::TEXT),
                    (&receiver.settings, Type::TEXT),
                    (&Time::new(now), Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        read_receiver(rows.first().ok_or(StoreError::Exists("receiver"))?)
    }

    async fn change_receiver(
        &self,
        id: ReceiverId,
        revision: i64,
        settings: &str,
    ) -> Result<Receiver> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Undone,
                CHANGE,
                &[(&id.0, Type::INT8), (&revision, Type::INT8), (&settings, Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or(StoreError::NotFound("receiver"))?;
        match row.get::<_, Option<i64>>("id") {
            Some(_) => read_receiver(row),
            None => Err(StoreError::Stale),
        }
    }

    async fn disable_receiver(&self, id: ReceiverId, reason: &str, now: Timestamp) -> Result<bool> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Undone,
                DISABLE,
                &[(&id.0, Type::INT8), (&reason, Type::TEXT), (&Time::new(now), Type::TIMESTAMPTZ)],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn remove_receiver(&self, id: ReceiverId) -> Result<bool> {
        let rows = self.catalogue().query(Repeat::Undone, REMOVE, &[(&id.0, Type::INT8)]).await?;
        Ok(!rows.is_empty())
    }
}
