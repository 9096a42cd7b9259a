//! Tenants. They are in the catalogue, which also says on which shard their rows are.

use jiff::Timestamp;
use storage::{Result, StoreError, Tenant, TenantLimits, TypeId};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::session::Keep;
use crate::time::Time;

const PUT: &str = "
    WITH put AS (
        INSERT INTO tenants (name, requests_per_second, active_batches_max, codes_max, created_at)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (name) DO UPDATE SET requests_per_second = excluded.requests_per_second,
            active_batches_max = excluded.active_batches_max, codes_max = excluded.codes_max
    )
    UPDATE meta SET version = version + 1";

impl PostgresStore {
    pub(crate) async fn tenants(&self) -> Result<Vec<Tenant>> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT name, requests_per_second, active_batches_max, codes_max, created_at
                 FROM tenants ORDER BY name",
                &[],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Tenant {
                    name: row.get("name"),
                    limits: TenantLimits {
                        requests_per_second: read_limit(row.get("requests_per_second"))?,
                        active_batches_max: read_limit(row.get("active_batches_max"))?,
                        codes_max: read_limit(row.get("codes_max"))?,
                    },
                    created_at: row.get::<_, Time>("created_at").0,
                })
            })
            .collect()
    }

    pub(crate) async fn change_tenant(&self, tenant: &Tenant) -> Result<()> {
        self.catalogue()
            .query(
                Repeat::Always,
                PUT,
                &[
                    (&tenant.name, Type::TEXT),
                    (&tenant.limits.requests_per_second.map(i64::from), Type::INT8),
                    (&tenant.limits.active_batches_max.map(i64::from), Type::INT8),
                    (&tenant.limits.codes_max.map(write_count), Type::INT8),
                    (&Time::new(tenant.created_at), Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        Ok(())
    }

    /// Deletes a tenant without types. Its row is locked while the shards are looked at, so that
    /// a type which is made meanwhile brings its tenant back.
    pub(crate) async fn forget_tenant(&self, name: &str) -> Result<()> {
        let catalogue = self.catalogue();
        let failed = |error: tokio_postgres::Error| error::from_database(&error);
        catalogue
            .within(catalogue.limits.step, async {
                let mut session = catalogue.session().await?;
                let limit_ms = catalogue.limits.step.as_millis();
                session.begin(limit_ms, limit_ms).await.map_err(failed)?;
                let deleted = session
                    .query(
                        Keep::Never,
                        "DELETE FROM tenants WHERE name = $1 RETURNING name",
                        &[(&name, Type::TEXT)],
                    )
                    .await
                    .map_err(failed)?;
                if deleted.is_empty() {
                    session.roll_back().await.map_err(failed)?;
                    return Err(StoreError::NotFound("tenant"));
                }
                if self.has_types(name).await? {
                    session.roll_back().await.map_err(failed)?;
                    return Err(StoreError::InUse);
                }
                session
                    .query(Keep::Never, "UPDATE meta SET version = version + 1", &[])
                    .await
                    .map_err(failed)?;
                session.commit().await.map_err(failed)
            })
            .await
    }

    async fn has_types(&self, tenant: &str) -> Result<bool> {
        for database in &self.databases {
            let rows = database
                .query(
                    Repeat::Always,
                    "SELECT FROM id_types WHERE tenant = $1 LIMIT 1",
                    &[(&tenant, Type::TEXT)],
                )
                .await?;
            if !rows.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes a tenant if it is new, and says where its rows are.
    pub(crate) async fn place_tenant(&self, name: &str, now: Timestamp) -> Result<&Database> {
        let shards = i32::try_from(self.databases.len()).expect("there are few shards");
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT place_tenant($1, $2, $3)",
                &[(&name, Type::TEXT), (&Time::new(now), Type::TIMESTAMPTZ), (&shards, Type::INT4)],
            )
            .await?;
        let shard = rows.first().and_then(|row| usize::try_from(row.get::<_, i16>(0)).ok());
        shard
            .and_then(|shard| self.databases.get(shard))
            .ok_or_else(|| corrupt(format!("tenant {name} is on a shard that is not configured")))
    }

    /// A type may be renamed, but not into a tenant that does not exist or is somewhere else.
    pub(crate) async fn check_tenant_of(&self, id: TypeId, tenant: &str) -> Result<()> {
        let rows = self
            .shard(id)?
            .query(
                Repeat::Always,
                "SELECT tenant FROM id_types WHERE id = $1",
                &[(&id.0, Type::INT8)],
            )
            .await?;
        let row = rows.first().ok_or(StoreError::NotFound("type"))?;
        if row.get::<_, &str>(0) == tenant {
            return Ok(());
        }
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT shard FROM tenants LEFT JOIN placements ON tenant = name WHERE name = $1",
                &[(&tenant, Type::TEXT)],
            )
            .await?;
        let row = rows.first().ok_or(StoreError::NotFound("tenant"))?;
        let shard = id.0.rem_euclid(crate::NUMBER_STEP);
        match row.get::<_, Option<i16>>(0) {
            Some(found) if i64::from(found) == shard => Ok(()),
            _ => Err(StoreError::NotFound("tenant on this shard")),
        }
    }
}

/// A rate as the traits have it. Columns hold it as a signed number of twice the size.
pub(crate) fn read_limit<T: TryFrom<i64>>(limit: Option<i64>) -> Result<Option<T>> {
    limit.map(T::try_from).transpose().map_err(|_| corrupt("a limit makes no sense"))
}
