//! Where the rows of tenants are.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::Result;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::error::corrupt;
use crate::session::Param;

const FIND: &str = "SELECT tenant, shard FROM placements WHERE tenant = ANY ($1)";

/// The shards of tenants. Where a tenant is was decided once, so what is known stays right.
#[derive(Default)]
pub(crate) struct Placements(Mutex<HashMap<String, usize>>);

impl Placements {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PostgresStore {
    /// The shard of each tenant; none for one that was never placed and so has no rows.
    pub(crate) async fn shards_of_tenants(&self, tenants: &[&str]) -> Result<Vec<Option<usize>>> {
        if self.databases.len() == 1 {
            return Ok(vec![Some(0); tenants.len()]);
        }
        let unknown: Vec<&str> = {
            let known = self.placements.lock();
            tenants.iter().copied().filter(|tenant| !known.contains_key(*tenant)).collect()
        };
        if !unknown.is_empty() {
            let params: [Param<'_>; 1] = [(&unknown, Type::TEXT_ARRAY)];
            let rows = self.catalogue().query(Repeat::Always, FIND, &params).await?;
            let mut known = self.placements.lock();
            for row in &rows {
                let (tenant, shard): (String, i16) = (row.get(0), row.get(1));
                let shard = usize::try_from(shard)
                    .ok()
                    .filter(|shard| *shard < self.databases.len())
                    .ok_or_else(|| {
                        corrupt(format!("tenant {tenant} is on a shard that is not configured"))
                    })?;
                known.insert(tenant, shard);
            }
        }
        let known = self.placements.lock();
        Ok(tenants.iter().map(|tenant| known.get(*tenant).copied()).collect())
    }

    /// The shard of one tenant.
    pub(crate) async fn shard_of_tenant(&self, tenant: &str) -> Result<Option<usize>> {
        Ok(self.shards_of_tenants(&[tenant]).await?.into_iter().flatten().next())
    }
}
