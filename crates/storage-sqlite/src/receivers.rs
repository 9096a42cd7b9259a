//! Receivers.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{NewReceiver, Purpose, Receiver, ReceiverId, ReceiverStore, Result, StoreError};

use crate::batches::read_void;
use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{SqliteStore, bump_catalogue};

const COLUMNS: &str =
    "id, tenant, purpose, name, settings, revision, disabled_at, disabled_reason, created_at";

fn read_row(row: &Row<'_>) -> StepResult<Receiver> {
    let name: String = row.get("purpose")?;
    let purpose = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name);
    let receiver = NewReceiver {
        tenant: row.get("tenant")?,
        purpose: purpose
            .ok_or_else(|| corrupt(format!("a receiver has the unknown purpose {name:?}")))?,
        name: row.get("name")?,
        settings: row.get("settings")?,
    };
    Ok(Receiver {
        id: ReceiverId(row.get("id")?),
        receiver,
        revision: row.get("revision")?,
        disabled: read_void(row, "disabled_at", "disabled_reason")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

fn list(connection: &Connection) -> StepResult<Vec<Receiver>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM receivers ORDER BY id"))?
        .query_and_then([], read_row)?
        .collect()
}

fn create(connection: &Connection, receiver: &NewReceiver, now: Timestamp) -> StepResult<Receiver> {
    let NewReceiver { tenant, purpose, name, settings } = receiver;
    // A conflict changes nothing and so returns no row.
    let created = connection
        .prepare_cached(&format!(
            "INSERT INTO receivers (tenant, purpose, name, settings, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant, purpose, name) DO NOTHING RETURNING {COLUMNS}"
        ))?
        .query_and_then(params![tenant, purpose.name(), name, settings, Millis(now)], read_row)?
        .next()
        .ok_or(StoreError::Exists("receiver"))??;
    bump_catalogue(connection)?;
    Ok(created)
}

fn change(
    connection: &Connection,
    id: ReceiverId,
    revision: i64,
    settings: &str,
) -> StepResult<Receiver> {
    let stored: i64 = connection
        .prepare_cached("SELECT revision FROM receivers WHERE id = ?1")?
        .query_one([id.0], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound("receiver"))?;
    if stored != revision {
        return Err(StoreError::Stale.into());
    }
    let changed = connection
        .prepare_cached(&format!(
            "UPDATE receivers SET settings = ?2, revision = revision + 1, disabled_at = NULL,
                 disabled_reason = NULL
             WHERE id = ?1 RETURNING {COLUMNS}"
        ))?
        .query_and_then(params![id.0, settings], read_row)?
        .next()
        .ok_or(StoreError::NotFound("receiver"))??;
    bump_catalogue(connection)?;
    Ok(changed)
}

fn disable(
    connection: &Connection,
    id: ReceiverId,
    reason: &str,
    now: Timestamp,
) -> StepResult<bool> {
    let disabled = connection
        .prepare_cached(
            "UPDATE receivers SET disabled_at = ?2, disabled_reason = ?3, revision = revision + 1
             WHERE id = ?1 AND disabled_at IS NULL",
        )?
        .execute(params![id.0, Millis(now), reason])?;
    if disabled > 0 {
        bump_catalogue(connection)?;
    }
    Ok(disabled > 0)
}

fn remove(connection: &Connection, id: ReceiverId) -> StepResult<bool> {
    let removed =
        connection.prepare_cached("DELETE FROM receivers WHERE id = ?1")?.execute([id.0])?;
    if removed > 0 {
        bump_catalogue(connection)?;
    }
    Ok(removed > 0)
}

#[async_trait]
impl ReceiverStore for SqliteStore {
    async fn list_receivers(&self) -> Result<Vec<Receiver>> {
        self.readers.run(list).await
    }

    async fn create_receiver(&self, receiver: &NewReceiver, now: Timestamp) -> Result<Receiver> {
        let receiver = receiver.clone();
        self.writer.run(move |connection| create(connection, &receiver, now)).await
    }

    async fn change_receiver(
        &self,
        id: ReceiverId,
        revision: i64,
        settings: &str,
    ) -> Result<Receiver> {
        let settings = settings.to_owned();
        self.writer.run(move |connection| change(connection, id, revision, &settings)).await
    }

    async fn disable_receiver(&self, id: ReceiverId, reason: &str, now: Timestamp) -> Result<bool> {
        let reason = reason.to_owned();
        self.writer.run(move |connection| disable(connection, id, &reason, now)).await
    }

    async fn remove_receiver(&self, id: ReceiverId) -> Result<bool> {
        self.writer.run(move |connection| remove(connection, id)).await
    }
}
