//! ID types. They are on the shard of their tenant.

use async_trait::async_trait;
use idgen::spec::IdType;
use jiff::Timestamp;
use storage::{
    Change, Removal, Result, StoreError, StoredType, Tenant, TypeId, TypeState, TypeStore,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::{self, corrupt};
use crate::time::Time;

const LIST: &str = "
    SELECT id, spec, sealed_key, retired, used, revision, created_at FROM id_types ORDER BY id";

// A conflict changes nothing and so returns no row.
const CREATE: &str = "
    WITH created AS (
        INSERT INTO id_types (id, tenant, name, spec, sealed_key, created_at)
        SELECT nextval('type_numbers') * 256 + shard, $1, $2, $3, $4, $5 FROM meta
        ON CONFLICT (tenant, name) DO NOTHING
        RETURNING id, spec, sealed_key, retired, used, revision, created_at
    ), noted AS (
        UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM created)
    )
    SELECT * FROM created";

fn write_spec(id_type: &IdType) -> Result<String> {
    serde_json::to_string(id_type).map_err(|error| corrupt(error.to_string()))
}

fn read_type(row: &Row) -> Result<StoredType> {
    let id = row.get("id");
    let id_type = serde_json::from_str(row.get("spec"))
        .map_err(|error| corrupt(format!("ID type {id}: {error}")))?;
    let state = if row.get("retired") { TypeState::Retired } else { TypeState::Active };
    Ok(StoredType {
        id: TypeId(id),
        id_type,
        sealed_key: row.get("sealed_key"),
        state,
        revision: row.get("revision"),
        used: row.get("used"),
        created_at: row.get::<_, Time>("created_at").0,
    })
}

#[async_trait]
impl TypeStore for PostgresStore {
    async fn list_types(&self) -> Result<Vec<StoredType>> {
        let rows = self.everywhere(LIST).await?;
        let mut types = rows.iter().map(read_type).collect::<Result<Vec<_>>>()?;
        types.sort_by_key(|stored| stored.id);
        Ok(types)
    }

    async fn create_type(
        &self,
        id_type: &IdType,
        sealed_key: &[u8],
        now: Timestamp,
    ) -> Result<StoredType> {
        let (tenant, name) = (id_type.tenant(), id_type.name());
        let shard = self.place_tenant(tenant, now).await?;
        let rows = shard
            .query(
                Repeat::Undone,
                CREATE,
                &[
                    (&tenant, Type::TEXT),
                    (&name, Type::TEXT),
                    (&write_spec(id_type)?, Type::TEXT),
                    (&sealed_key, Type::BYTEA),
                    (&Time::new(now), Type::TIMESTAMPTZ),
                ],
            )
            .await
            .map_err(error::heard_of)?;
        let created = read_type(rows.first().ok_or(StoreError::Exists("type"))?)?;
        // Whoever removed the tenant meanwhile did not see the type. The tenant comes back.
        self.place_tenant(tenant, now).await.map_err(error::heard_of)?;
        Ok(created)
    }

    async fn change_type(
        &self,
        id: TypeId,
        revision: i64,
        id_type: &IdType,
        sealed_key: &[u8],
        only_if_unused: bool,
    ) -> Result<Change> {
        let shard = self.shard(id)?;
        let (tenant, name) = (id_type.tenant(), id_type.name());
        self.check_tenant_of(id, tenant).await?;
        let rows = shard
            .query(
                Repeat::Undone,
                "SELECT outcome, new_revision FROM change_type($1, $2, $3, $4, $5, $6, $7)",
                &[
                    (&id.0, Type::INT8),
                    (&revision, Type::INT8),
                    (&tenant, Type::TEXT),
                    (&name, Type::TEXT),
                    (&write_spec(id_type)?, Type::TEXT),
                    (&sealed_key, Type::BYTEA),
                    (&only_if_unused, Type::BOOL),
                ],
            )
            .await?;
        let row = rows.first().ok_or_else(|| corrupt("a change came to nothing"))?;
        match row.get("outcome") {
            "done" => Ok(Change::Done(row.get("new_revision"))),
            "stale" => Err(StoreError::Stale),
            "used" => Ok(Change::TypeIsUsed),
            "taken" => Err(StoreError::Exists("type")),
            _ => Err(StoreError::NotFound("type")),
        }
    }

    async fn remove_type(&self, id: TypeId) -> Result<Removal> {
        let rows = self
            .shard(id)?
            .query(Repeat::Undone, "SELECT remove_type($1)", &[(&id.0, Type::INT8)])
            .await?;
        match rows.first().map(|row| row.get(0)) {
            Some("deleted") => Ok(Removal::Deleted),
            Some("retired") => Ok(Removal::Retired),
            _ => Err(StoreError::NotFound("type")),
        }
    }

    async fn list_tenants(&self) -> Result<Vec<Tenant>> {
        self.tenants().await
    }

    async fn put_tenant(&self, tenant: &Tenant) -> Result<()> {
        self.change_tenant(tenant).await
    }

    async fn remove_tenant(&self, name: &str) -> Result<()> {
        self.forget_tenant(name).await
    }
}
