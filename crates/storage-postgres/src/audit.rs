//! The audit log. It is in the catalogue, so that one list has all of it.

use async_trait::async_trait;
use storage::{AuditStore, Deed, DeedFilter, Result};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::Repeat;
use crate::session::Param;
use crate::time::Time;

const RECORD: &str = "
    INSERT INTO deeds (at, key_id, tenant, action, subject, detail)
    VALUES ($1, $2, $3, $4, $5, $6)";

/// A statement for the filters that there are: one that asks for every case at once could use none of
/// their indexes. There are eight of them.
fn list_sql(filters: &[(&str, &String)]) -> String {
    let mut conditions = vec!["id < $1".to_owned()];
    conditions
        .extend((3..).zip(filters).map(|(place, (column, _))| format!("{column} = ${place}")));
    format!(
        "SELECT id, at, key_id, tenant, action, subject, detail FROM deeds
         WHERE {} ORDER BY id DESC LIMIT $2",
        conditions.join(" AND ")
    )
}

#[async_trait]
impl AuditStore for PostgresStore {
    /// Not repeated without knowing: what was done once is on record once.
    async fn record_deed(&self, deed: &Deed) -> Result<()> {
        self.catalogue()
            .query(
                Repeat::Undone,
                RECORD,
                &[
                    (&Time::new(deed.at), Type::TIMESTAMPTZ),
                    (&deed.key_id, Type::INT8),
                    (&deed.tenant, Type::TEXT),
                    (&deed.action, Type::TEXT),
                    (&deed.subject, Type::TEXT),
                    (&deed.detail, Type::TEXT),
                ],
            )
            .await?;
        Ok(())
    }

    async fn deeds(&self, filter: &DeedFilter) -> Result<Vec<(i64, Deed)>> {
        let before = filter.before.unwrap_or(i64::MAX);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let filters: Vec<(&str, &String)> =
            [("tenant", &filter.tenant), ("action", &filter.action), ("subject", &filter.subject)]
                .into_iter()
                .filter_map(|(column, wanted)| wanted.as_ref().map(|wanted| (column, wanted)))
                .collect();
        let mut params: Vec<Param<'_>> = vec![(&before, Type::INT8), (&limit, Type::INT8)];
        for (_, wanted) in &filters {
            params.push((*wanted, Type::TEXT));
        }
        let rows = self.catalogue().query(Repeat::Always, &list_sql(&filters), &params).await?;
        let deeds = rows.iter().map(|row| {
            let deed = Deed {
                at: row.get::<_, Time>("at").0,
                key_id: row.get("key_id"),
                tenant: row.get("tenant"),
                action: row.get("action"),
                subject: row.get("subject"),
                detail: row.get("detail"),
            };
            (row.get("id"), deed)
        });
        Ok(deeds.collect())
    }
}
