//! The table of a pool: making it, or adopting one that is there.

use idgen::spec::{IdType, Kind, RandomSpec};
use storage::{PoolKey, Result, StoreError};
use tokio_postgres::types::Type;

use super::names;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::session::{Keep, Session};

/// `OpenG2P`'s width. IDs that do not fit get a wider column.
const WIDTH_USUAL: usize = 32;

/// Wide enough for everything that is not a random ID.
const WIDTH_MAX: usize = 255;

const COLUMNS: &str = "
    SELECT attname::text, CASE WHEN atttypmod > 4 THEN atttypmod - 4 END
    FROM pg_attribute
    WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";

const HAS_AGE_INDEX: &str = "
    SELECT EXISTS (
        SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = to_regclass($1) AND attname = 'created_at' AND indpred IS NOT NULL
          AND indisvalid)";

/// Finds the name of a pool's table, or gives it one.
pub(super) async fn name(shard: &Database, pool: &PoolKey) -> Result<String> {
    if let Some(name) = known_name(shard, pool).await? {
        return Ok(name);
    }
    for candidate in names::candidates(pool) {
        shard
            .query(
                Repeat::Always,
                "INSERT INTO pool_tables (type_id, period, table_name)
                 SELECT id, $2, $3 FROM id_types WHERE id = $1
                 ON CONFLICT DO NOTHING",
                &[
                    (&pool.type_id.0, Type::INT8),
                    (&pool.period, Type::TEXT),
                    (&candidate, Type::TEXT),
                ],
            )
            .await?;
        if let Some(name) = known_name(shard, pool).await? {
            return Ok(name);
        }
    }
    Err(StoreError::NotFound("type"))
}

async fn known_name(shard: &Database, pool: &PoolKey) -> Result<Option<String>> {
    let rows = shard
        .query(
            Repeat::Always,
            "SELECT table_name FROM pool_tables WHERE type_id = $1 AND period = $2",
            &[(&pool.type_id.0, Type::INT8), (&pool.period, Type::TEXT)],
        )
        .await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Makes the table, or what it lacks. Others wait while that goes on.
pub(super) async fn make(shard: &Database, pool: &PoolKey, table: &str) -> Result<()> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let width = width(shard, pool).await?;
    shard
        .within(shard.limits.work, async {
            let mut session = shard.session().await?;
            if is_complete(&mut session, table, width).await? {
                return Ok(());
            }
            let limit_ms = shard.limits.work.as_millis();
            session.begin(limit_ms, limit_ms).await.map_err(failed)?;
            session.batch("SELECT pg_advisory_xact_lock(1296979015, 5)").await.map_err(failed)?;
            complete(&mut session, table, width).await?;
            mark_used(&mut session, pool, table).await?;
            session.commit().await.map_err(failed)
        })
        .await
}

/// The longest ID that the table has to hold.
async fn width(shard: &Database, pool: &PoolKey) -> Result<usize> {
    let rows = shard
        .query(
            Repeat::Always,
            "SELECT spec FROM id_types WHERE id = $1",
            &[(&pool.type_id.0, Type::INT8)],
        )
        .await?;
    let row = rows.first().ok_or(StoreError::NotFound("type"))?;
    let id_type: IdType =
        serde_json::from_str(row.get(0)).map_err(|error| corrupt(error.to_string()))?;
    Ok(match id_type.kind() {
        Kind::Random(RandomSpec { length, group, .. }) => {
            let hyphens = group.map_or(0, |group| length.saturating_sub(1) / group.max(1));
            usize::from(*length) + usize::from(hyphens)
        }
        _ => WIDTH_MAX,
    })
}

/// What is known of a table that is there.
struct Found {
    /// None is without limit.
    width: Option<usize>,
    has_age_index: bool,
}

/// Looks at a table. None if it is not there, an error if it is something else.
async fn find(session: &mut Session, table: &str) -> Result<Option<Found>> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let quoted = names::quoted(table);
    let columns =
        session.query(Keep::Never, COLUMNS, &[(&quoted, Type::TEXT)]).await.map_err(failed)?;
    if columns.is_empty() {
        return Ok(None);
    }
    for wanted in ["id_value", "status", "created_at", "issued_at"] {
        if !columns.iter().any(|row| row.get::<_, &str>(0) == wanted) {
            return Err(corrupt(format!("table {table} is no pool: it has no column {wanted}")));
        }
    }
    let id_value = columns.iter().find(|row| row.get::<_, &str>(0) == "id_value");
    let width = id_value.and_then(|row| row.get::<_, Option<i32>>(1));
    let rows = session
        .query(Keep::Never, HAS_AGE_INDEX, &[(&quoted, Type::TEXT)])
        .await
        .map_err(failed)?;
    Ok(Some(Found {
        width: width.and_then(|width| usize::try_from(width).ok()),
        has_age_index: rows.first().is_some_and(|row| row.get(0)),
    }))
}

async fn is_complete(session: &mut Session, table: &str, width: usize) -> Result<bool> {
    let found = find(session, table).await?;
    Ok(found.is_some_and(|found| {
        found.has_age_index && found.width.is_none_or(|its_width| its_width >= width)
    }))
}

/// Rows are written twice in their life, and the second time is soon: half a page is left for it.
/// Everything else about a table that is there already stays as it is.
async fn complete(session: &mut Session, table: &str, width: usize) -> Result<()> {
    let mut sql = Vec::new();
    let quoted = names::quoted(table);
    let column_width = if width <= WIDTH_USUAL { WIDTH_USUAL } else { WIDTH_MAX };
    let found = find(session, table).await?;
    match &found {
        None => {
            sql.push(format!(
                "CREATE TABLE {quoted} (
                    id_value   VARCHAR({column_width}) PRIMARY KEY,
                    status     VARCHAR(16) NOT NULL DEFAULT 'AVAILABLE',
                    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
                    issued_at  TIMESTAMPTZ NULL
                ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05,
                        autovacuum_analyze_scale_factor = 0.05)"
            ));
            let name = names::status_index(table).map_or_else(String::new, |n| names::quoted(&n));
            sql.push(format!(
                "CREATE INDEX {name} ON {quoted} (status) WHERE status = 'AVAILABLE'"
            ));
        }
        // Only wider, which does not touch a row.
        Some(found) if found.width.is_some_and(|its_width| its_width < width) => {
            sql.push(format!(
                "ALTER TABLE {quoted} ALTER COLUMN id_value TYPE VARCHAR({column_width})"
            ));
        }
        Some(_) => {}
    }
    if !found.is_some_and(|found| found.has_age_index) {
        sql.push(format!("CREATE INDEX ON {quoted} (created_at) WHERE status = 'AVAILABLE'"));
    }
    session.batch(&sql.join(";")).await.map_err(|error| error::from_database(&error))
}

/// IDs of a type whose table was adopted with rows in it may be out there.
async fn mark_used(session: &mut Session, pool: &PoolKey, table: &str) -> Result<()> {
    let sql = format!(
        "WITH marked AS (
             UPDATE id_types SET used = true
             WHERE id = $1 AND NOT used AND EXISTS (SELECT FROM {}) RETURNING id
         )
         UPDATE meta SET version = version + 1 WHERE EXISTS (SELECT FROM marked)",
        names::quoted(table)
    );
    session
        .query(Keep::Never, &sql, &[(&pool.type_id.0, Type::INT8)])
        .await
        .map_err(|error| error::from_database(&error))?;
    Ok(())
}
