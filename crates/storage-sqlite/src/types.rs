//! ID types and tenants.

use async_trait::async_trait;
use idgen::spec::IdType;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use storage::{
    Change, Removal, Result, StoreError, StoredType, Tenant, TenantLimits, TypeId, TypeState,
    TypeStore,
};

use crate::error::{StepResult, corrupt};
use crate::time::Millis;
use crate::{SqliteStore, bump_catalogue};

const COLUMNS: &str = "id, spec, sealed_key, retired, revision, used, created_at";

fn write_spec(id_type: &IdType) -> StepResult<String> {
    serde_json::to_string(id_type).map_err(|error| corrupt(error.to_string()))
}

fn read_type(row: &Row<'_>) -> StepResult<StoredType> {
    let id = row.get("id")?;
    let id_type = serde_json::from_str(&row.get::<_, String>("spec")?)
        .map_err(|error| corrupt(format!("ID type {id}: {error}")))?;
    let state = if row.get("retired")? { TypeState::Retired } else { TypeState::Active };
    Ok(StoredType {
        id: TypeId(id),
        id_type,
        sealed_key: row.get("sealed_key")?,
        state,
        revision: row.get("revision")?,
        used: row.get("used")?,
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

fn read_tenant(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    Ok(Tenant {
        name: row.get("name")?,
        limits: TenantLimits {
            requests_per_second: row.get("requests_per_second")?,
            active_batches_max: row.get("active_batches_max")?,
            codes_max: row.get("codes_max")?,
        },
        created_at: row.get::<_, Millis>("created_at")?.0,
    })
}

fn create(
    connection: &Connection,
    id_type: &IdType,
    sealed_key: &[u8],
    now: Timestamp,
) -> StepResult<StoredType> {
    connection
        .prepare_cached(
            "INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![id_type.tenant(), Millis(now)])?;
    // A conflict changes nothing and so returns no row.
    let created = connection
        .prepare_cached(&format!(
            "INSERT INTO id_types (tenant, name, spec, sealed_key, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant, name) DO NOTHING RETURNING {COLUMNS}"
        ))?
        .query_and_then(
            params![
                id_type.tenant(),
                id_type.name(),
                write_spec(id_type)?,
                sealed_key,
                Millis(now)
            ],
            read_type,
        )?
        .next()
        .ok_or(StoreError::Exists("type"))??;
    bump_catalogue(connection)?;
    Ok(created)
}

/// Whether a type was ever used.
fn is_used(connection: &Connection, id: TypeId) -> StepResult<bool> {
    let used = connection
        .prepare_cached("SELECT used FROM id_types WHERE id = ?1")?
        .query_one([id.0], |row| row.get(0))
        .optional()?;
    Ok(used.ok_or(StoreError::NotFound("type"))?)
}

/// Remembers that IDs of a type may be out there. What lists of types say changes with the first.
pub(crate) fn mark_used(connection: &Connection, id: TypeId) -> StepResult<()> {
    let changed = connection
        .prepare_cached("UPDATE id_types SET used = 1 WHERE id = ?1 AND used = 0")?
        .execute([id.0])?;
    if changed > 0 {
        bump_catalogue(connection)?;
    }
    Ok(())
}

fn change(
    connection: &Connection,
    id: TypeId,
    revision: i64,
    id_type: &IdType,
    sealed_key: &[u8],
    only_if_unused: bool,
) -> StepResult<Change> {
    let (used, stored): (bool, i64) = connection
        .prepare_cached("SELECT used, revision FROM id_types WHERE id = ?1")?
        .query_one([id.0], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or(StoreError::NotFound("type"))?;
    if stored != revision {
        return Err(StoreError::Stale.into());
    }
    if used && only_if_unused {
        return Ok(Change::TypeIsUsed);
    }
    // The specification names the type, so a change may rename it, but not to a name that is
    // taken, and not into a tenant that does not exist.
    let (tenant, name) = (id_type.tenant(), id_type.name());
    let taken: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM id_types WHERE tenant = ?1 AND name = ?2 AND id <> ?3)",
        )?
        .query_one(params![tenant, name, id.0], |row| row.get(0))?;
    if taken {
        return Err(StoreError::Exists("type").into());
    }
    let tenant_exists: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE name = ?1)")?
        .query_one([tenant], |row| row.get(0))?;
    if !tenant_exists {
        return Err(StoreError::NotFound("tenant").into());
    }
    let revision = connection
        .prepare_cached(
            "UPDATE id_types SET tenant = ?2, name = ?3, spec = ?4, sealed_key = ?5, retired = 0,
                 revision = revision + 1
             WHERE id = ?1 RETURNING revision",
        )?
        .query_one(params![id.0, tenant, name, write_spec(id_type)?, sealed_key], |row| {
            row.get(0)
        })?;
    bump_catalogue(connection)?;
    Ok(Change::Done(revision))
}

fn remove(connection: &Connection, id: TypeId) -> StepResult<Removal> {
    let (sql, removal) = if is_used(connection, id)? {
        let sql = "UPDATE id_types SET retired = 1, revision = revision + 1 WHERE id = ?1";
        (sql, Removal::Retired)
    } else {
        ("DELETE FROM id_types WHERE id = ?1", Removal::Deleted)
    };
    connection.prepare_cached(sql)?.execute([id.0])?;
    bump_catalogue(connection)?;
    Ok(removal)
}

fn remove_tenant(connection: &Connection, name: &str) -> StepResult<()> {
    let has_types: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM id_types WHERE tenant = ?1)")?
        .query_one([name], |row| row.get(0))?;
    if has_types {
        return Err(StoreError::InUse.into());
    }
    let removed =
        connection.prepare_cached("DELETE FROM tenants WHERE name = ?1")?.execute([name])?;
    if removed == 0 {
        return Err(StoreError::NotFound("tenant").into());
    }
    bump_catalogue(connection)
}

#[async_trait]
impl TypeStore for SqliteStore {
    async fn list_types(&self) -> Result<Vec<StoredType>> {
        self.readers
            .run(|connection| {
                connection
                    .prepare_cached(&format!("SELECT {COLUMNS} FROM id_types ORDER BY id"))?
                    .query_and_then([], read_type)?
                    .collect()
            })
            .await
    }

    async fn create_type(
        &self,
        id_type: &IdType,
        sealed_key: &[u8],
        now: Timestamp,
    ) -> Result<StoredType> {
        let (id_type, sealed_key) = (id_type.clone(), sealed_key.to_owned());
        self.writer.run(move |connection| create(connection, &id_type, &sealed_key, now)).await
    }

    async fn change_type(
        &self,
        id: TypeId,
        revision: i64,
        id_type: &IdType,
        sealed_key: &[u8],
        only_if_unused: bool,
    ) -> Result<Change> {
        let (id_type, sealed_key) = (id_type.clone(), sealed_key.to_owned());
        self.writer
            .run(move |connection| {
                change(connection, id, revision, &id_type, &sealed_key, only_if_unused)
            })
            .await
    }

    async fn remove_type(&self, id: TypeId) -> Result<Removal> {
        self.writer.run(move |connection| remove(connection, id)).await
    }

    async fn list_tenants(&self) -> Result<Vec<Tenant>> {
        self.readers
            .run(|connection| {
                let tenants = connection
                    .prepare_cached("SELECT * FROM tenants ORDER BY name")?
                    .query_map([], read_tenant)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(tenants)
            })
            .await
    }

    async fn put_tenant(&self, tenant: &Tenant) -> Result<()> {
        let tenant = tenant.clone();
        self.writer
            .run(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO tenants (name, requests_per_second, active_batches_max,
                                              codes_max, created_at)
                         VALUES (?1, ?2, ?3, ?4, ?5)
                         ON CONFLICT DO UPDATE
                         SET requests_per_second = excluded.requests_per_second,
                             active_batches_max = excluded.active_batches_max,
                             codes_max = excluded.codes_max",
                    )?
                    .execute(params![
                        tenant.name,
                        tenant.limits.requests_per_second,
                        tenant.limits.active_batches_max,
                        tenant.limits.codes_max,
                        Millis(tenant.created_at)
                    ])?;
                bump_catalogue(connection)
            })
            .await
    }

    async fn remove_tenant(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.writer.run(move |connection| remove_tenant(connection, &name)).await
    }
}
