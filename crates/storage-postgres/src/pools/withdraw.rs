//! Taking IDs out of a pool, and putting back what was not used.

use storage::{Items, Result, Withdrawn};
use tokio_postgres::types::Type;

use super::state::PoolTable;
use crate::database::{Database, Repeat};
use crate::error;
use crate::session::Keep;
use crate::time::Stamp;

/// Rows in order of their creation, which is that of their serials. Never in order of the IDs:
/// that would make the next one easy to guess. The limit is hidden from the planner, which knows too
/// little about a table that changes so fast: where it takes the limit for all there is, it sorts
/// the whole table. The rows are locked, so their status is not compared again: that would only tempt
/// the planner to go through all that are available.
fn withdraw_sql(table: &str) -> String {
    format!(
        "UPDATE {table} SET status = 'TAKEN', issued_at = now()
         WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM {table} WHERE status = 'AVAILABLE' AND created_at >= $1
             ORDER BY created_at LIMIT (SELECT $2) FOR UPDATE SKIP LOCKED))
         RETURNING id_value::text, created_at"
    )
}

fn put_back_sql(table: &str) -> String {
    format!(
        "UPDATE {table} SET status = 'AVAILABLE', issued_at = NULL
         WHERE id_value = ANY ($1) AND status = 'TAKEN' RETURNING created_at"
    )
}

/// Takes rows from a time of creation on.
async fn take(
    shard: &Database,
    table: &PoolTable,
    floor: Stamp,
    count: usize,
) -> Result<Vec<(Stamp, String)>> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    // One that was done and whose answer got lost is done again. What it took stays taken.
    let rows = shard
        .query_as(
            table.keep,
            Repeat::Always,
            &withdraw_sql(&table.table),
            &[(&floor, Type::TIMESTAMPTZ), (&count, Type::INT8)],
        )
        .await?;
    Ok(rows.iter().map(|row| (row.get(1), row.get(0))).collect())
}

pub(super) async fn withdraw(
    shard: &Database,
    table: &PoolTable,
    count: usize,
) -> Result<Withdrawn> {
    if count == 0 {
        return Ok(Withdrawn { items: Items::Ids(Vec::new()), left: table.level() });
    }
    let floor = table.floor();
    let mut taken = take(shard, table, floor, count).await?;
    if taken.len() < count && floor > Stamp::MIN && table.may_have_more() {
        let more = take(shard, table, Stamp::MIN, count - taken.len()).await;
        taken.extend(more.map_err(error::heard_of)?);
        table.note_look(taken.len() < count);
    }
    if let Some((newest, _)) = taken.iter().max_by_key(|(created, _)| *created) {
        table.raise_floor(*newest);
    }
    if taken.len() < count {
        table.set_level(0);
    } else {
        table.add_to_level(-i64::try_from(count).unwrap_or(i64::MAX));
    }
    taken.sort_by_key(|(created, _)| *created);
    let ids = taken.into_iter().map(|(_, id)| id).collect();
    Ok(Withdrawn { items: Items::Ids(ids), left: table.level() })
}

pub(super) async fn put_back(shard: &Database, table: &PoolTable, ids: &[String]) -> Result<()> {
    let rows = shard
        .query_as(
            Keep::Never,
            Repeat::Undone,
            &put_back_sql(&table.table),
            &[(&ids, Type::TEXT_ARRAY)],
        )
        .await?;
    if let Some(oldest) = rows.iter().map(|row| row.get(0)).min() {
        table.lower_floor(oldest);
    }
    table.add_to_level(i64::try_from(rows.len()).unwrap_or(i64::MAX));
    Ok(())
}
