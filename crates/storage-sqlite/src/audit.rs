//! The audit log.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use storage::{AuditStore, Deed, DeedFilter, Result};

use crate::SqliteStore;
use crate::batches::limit;
use crate::error::StepResult;
use crate::time::Millis;

fn read_row(row: &Row<'_>) -> rusqlite::Result<(i64, Deed)> {
    let deed = Deed {
        at: row.get::<_, Millis>("at")?.0,
        key_id: row.get("key_id")?,
        tenant: row.get("tenant")?,
        action: row.get("action")?,
        subject: row.get("subject")?,
        detail: row.get("detail")?,
    };
    Ok((row.get("number")?, deed))
}

fn record(connection: &Connection, deed: &Deed) -> StepResult<()> {
    let Deed { at, key_id, tenant, action, subject, detail } = deed;
    connection
        .prepare_cached(
            "INSERT INTO deeds (at, key_id, tenant, action, subject, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![Millis(*at), key_id, tenant, action, subject, detail])?;
    Ok(())
}

fn list(connection: &Connection, filter: &DeedFilter) -> StepResult<Vec<(i64, Deed)>> {
    let DeedFilter { tenant, action, subject, before, limit: most } = filter;
    // A condition is only there if it is one, so that it can be met by an index.
    let mut sql = "SELECT * FROM deeds WHERE number < ?1".to_owned();
    let conditions = [
        (tenant, " AND tenant = ?2"),
        (action, " AND action = ?3"),
        (subject, " AND subject = ?4"),
    ];
    for (value, condition) in conditions {
        if value.is_some() {
            sql.push_str(condition);
        }
    }
    sql.push_str(" ORDER BY number DESC LIMIT ?5");
    let before = before.unwrap_or(i64::MAX);
    let deeds = connection
        .prepare_cached(&sql)?
        .query_map(params![before, tenant, action, subject, limit(*most)], read_row)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(deeds)
}

#[async_trait]
impl AuditStore for SqliteStore {
    async fn record_deeds(&self, deeds: &[Deed]) -> Result<()> {
        let deeds = deeds.to_vec();
        self.writer
            .run(move |connection| deeds.iter().try_for_each(|deed| record(connection, deed)))
            .await
    }

    async fn deeds(&self, filter: &DeedFilter) -> Result<Vec<(i64, Deed)>> {
        let filter = filter.clone();
        self.readers.run(move |connection| list(connection, &filter)).await
    }
}
