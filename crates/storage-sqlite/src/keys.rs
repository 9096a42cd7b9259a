//! API keys.

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{ApiKey, KeyStore, NewApiKey, Result, Scope, StoreError};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{SqliteStore, bump_catalogue};

const COLUMNS: &str = "id, short, secret_hash, name, tenant, scopes, requests_per_second, \
                       created_at, expires_at, revoked_at";

fn write_scopes(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",")
}

fn read_scopes(text: &str) -> StepResult<Vec<Scope>> {
    text.split_terminator(',')
        .map(|name| {
            let known = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            known.ok_or_else(|| corrupt(format!("a key has the unknown scope {name:?}")))
        })
        .collect()
}

fn read_row(row: &Row<'_>) -> StepResult<ApiKey> {
    let time = |column| -> rusqlite::Result<Option<Timestamp>> {
        Ok(row.get::<_, Option<Millis>>(column)?.map(|time| time.0))
    };
    let key = NewApiKey {
        short: row.get("short")?,
        secret_hash: row.get("secret_hash")?,
        name: row.get("name")?,
        tenant: row.get("tenant")?,
        scopes: read_scopes(&row.get::<_, String>("scopes")?)?,
        requests_per_second: row.get("requests_per_second")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
        expires_at: time("expires_at")?,
    };
    Ok(ApiKey { id: row.get("id")?, key, revoked_at: time("revoked_at")? })
}

fn list(connection: &Connection) -> StepResult<Vec<ApiKey>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM api_keys ORDER BY id"))?
        .query_and_then([], read_row)?
        .collect()
}

fn create(connection: &Connection, key: &NewApiKey) -> StepResult<ApiKey> {
    // A conflict changes nothing and so returns no row.
    let created = connection
        .prepare_cached(&format!(
            "INSERT INTO api_keys
                 (short, secret_hash, name, tenant, scopes, requests_per_second, created_at,
                  expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (short) DO NOTHING RETURNING {COLUMNS}"
        ))?
        .query_and_then(
            params![
                key.short,
                key.secret_hash,
                key.name,
                key.tenant,
                write_scopes(&key.scopes),
                key.requests_per_second,
                Millis(key.created_at),
                key.expires_at.map(Millis),
            ],
            read_row,
        )?
        .next()
        .ok_or(StoreError::Exists("key"))??;
    bump_catalogue(connection)?;
    Ok(created)
}

fn revoke(connection: &Connection, short: &str, now: Timestamp) -> StepResult<bool> {
    let revoked_at: Option<i64> = connection
        .prepare_cached("SELECT revoked_at FROM api_keys WHERE short = ?1")?
        .query_one([short], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound("key"))?;
    if revoked_at.is_some() {
        return Ok(false);
    }
    connection
        .prepare_cached("UPDATE api_keys SET revoked_at = ?2 WHERE short = ?1")?
        .execute(params![short, Millis(now)])?;
    bump_catalogue(connection)?;
    Ok(true)
}

#[async_trait]
impl KeyStore for SqliteStore {
    async fn list_keys(&self) -> Result<Vec<ApiKey>> {
        self.readers.run(list).await
    }

    async fn create_key(&self, key: &NewApiKey) -> Result<ApiKey> {
        let key = key.clone();
        self.writer.run(move |connection| create(connection, &key)).await
    }

    async fn revoke_key(&self, short: &str, now: Timestamp) -> Result<bool> {
        let short = short.to_owned();
        self.writer.run(move |connection| revoke(connection, &short, now)).await
    }
}
