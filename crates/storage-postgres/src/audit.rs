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
    SELECT deed.* FROM unnest($1::timestamptz[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                              $6::text[]) AS deed";

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
    async fn record_deeds(&self, deeds: &[Deed]) -> Result<()> {
        let times: Vec<Time> = deeds.iter().map(|deed| Time::new(deed.at)).collect();
        let keys: Vec<i64> = deeds.iter().map(|deed| deed.key_id).collect();
        let texts = |text: fn(&Deed) -> &str| deeds.iter().map(text).collect::<Vec<_>>();
        let params: [Param<'_>; 6] = [
            (&times, Type::TIMESTAMPTZ_ARRAY),
            (&keys, Type::INT8_ARRAY),
            (&texts(|deed| &deed.tenant), Type::TEXT_ARRAY),
            (&texts(|deed| &deed.action), Type::TEXT_ARRAY),
            (&texts(|deed| &deed.subject), Type::TEXT_ARRAY),
            (&texts(|deed| &deed.detail), Type::TEXT_ARRAY),
        ];
        self.catalogue().query(Repeat::Undone, RECORD, &params).await?;
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
