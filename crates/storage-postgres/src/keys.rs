//! API keys.

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{ApiKey, KeyStore, NewApiKey, Result, Scope, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::tenants::read_limit;
use crate::time::Time;

const LIST: &str = "
    SELECT id, short, secret_hash, name, tenant, scopes, requests_per_second, created_at,
           expires_at, revoked_at
    FROM api_keys ORDER BY id";

// A conflict changes nothing and so returns no row.
const CREATE: &str = "
    WITH created AS (
        INSERT INTO api_keys
            (short, secret_hash, name, tenant, scopes, requests_per_second, created_at, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (short) DO NOTHING
        RETURNING id, short, secret_hash, name, tenant, scopes, requests_per_second, created_at,
                  expires_at, revoked_at
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM created)
    )
    SELECT * FROM created";

const REVOKE: &str = "
    WITH revoked AS (
        UPDATE api_keys SET revoked_at = $2 WHERE short = $1 AND revoked_at IS NULL
        RETURNING id
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM revoked)
    )
    SELECT EXISTS (SELECT FROM revoked) FROM api_keys WHERE short = $1";

fn write_scopes(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(",")
}

fn read_scopes(text: &str) -> Result<Vec<Scope>> {
    text.split_terminator(',')
        .map(|name| {
            let known = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            known.ok_or_else(|| corrupt(format!("a key has the unknown scope {name:?}")))
        })
        .collect()
}

fn read_row(row: &Row) -> Result<ApiKey> {
    let time = |column| row.get::<_, Option<Time>>(column).map(|time| time.0);
    let key = NewApiKey {
        short: row.get("short"),
        secret_hash: row
            .get::<_, &[u8]>("secret_hash")
            .try_into()
            .map_err(|_| corrupt("a key's hash does not have 32 bytes"))?,
        name: row.get("name"),
        tenant: row.get("tenant"),
        scopes: read_scopes(row.get("scopes"))?,
        requests_per_second: read_limit(row.get("requests_per_second"))?,
        created_at: row.get::<_, Time>("created_at").0,
        expires_at: time("expires_at"),
    };
    Ok(ApiKey { id: row.get("id"), key, revoked_at: time("revoked_at") })
}

#[async_trait]
impl KeyStore for PostgresStore {
    async fn list_keys(&self) -> Result<Vec<ApiKey>> {
        self.catalogue().query(Repeat::Always, LIST, &[]).await?.iter().map(read_row).collect()
    }

    async fn create_key(&self, key: &NewApiKey) -> Result<ApiKey> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Undone,
                CREATE,
                &[
                    (&key.short, Type::TEXT),
                    (&key.secret_hash.as_slice(), Type::BYTEA),
                    (&key.name, Type::TEXT),
                    (&key.tenant, Type::TEXT),
                    (&write_scopes(&key.scopes), Type::TEXT),
                    (&key.requests_per_second.map(i64::from), Type::INT8),
                    (&Time::new(key.created_at), Type::TIMESTAMPTZ),
                    (&key.expires_at.map(Time::new), Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        read_row(rows.first().ok_or(StoreError::Exists("key"))?)
    }

    async fn revoke_key(&self, short: &str, now: Timestamp) -> Result<bool> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Undone,
                REVOKE,
                &[(&short, Type::TEXT), (&Time::new(now), Type::TIMESTAMPTZ)],
            )
            .await?;
        rows.first().map(|row| row.get(0)).ok_or(StoreError::NotFound("key"))
    }
}
