//! Filling a pool: one transaction, so that nothing is ever drawn and not in the table.

use std::ops::Range;

use storage::{PoolKey, Result, StoreError, TopUp, ToppedUp};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::count_sql;
use super::state::PoolTable;
use crate::counters::{DRAW, read_draw, write_count};
use crate::database::Database;
use crate::error::{self, corrupt};
use crate::session::{Keep, Param, Session};
use crate::spans::write_serial;
use crate::time::Stamp;

// Each row gets a time of its own, later than all before, so that they come out in this order.
const TIMES: &str = "
    UPDATE pool_tables
    SET filled_to = greatest(filled_to, clock_timestamp()) + $3 * interval '1 microsecond'
    WHERE type_id = $1 AND period = $2
    RETURNING filled_to - $3 * interval '1 microsecond'";

// An adopted table may hold some of the IDs already.
fn insert_sql(table: &str) -> String {
    format!(
        "WITH added AS (
             INSERT INTO {table} (id_value, status, created_at)
             SELECT id, 'AVAILABLE', $2 + place * interval '1 microsecond'
             FROM unnest($1::text[]) WITH ORDINALITY AS rendered (id, place)
             ON CONFLICT (id_value) DO NOTHING RETURNING 1
         )
         SELECT count(*) FROM added"
    )
}

/// One filling, while its transaction is open.
struct Filling<'a> {
    session: Session,
    pool: &'a PoolKey,
    table: &'a PoolTable,
    order: TopUp,
}

pub(super) async fn top_up(
    shard: &Database,
    pool: &PoolKey,
    table: &PoolTable,
    order: TopUp,
) -> Result<ToppedUp> {
    shard
        .within(shard.limits.work, async {
            let mut session = shard.session().await?;
            let work_ms = shard.limits.work.as_millis();
            session
                .begin(work_ms, shard.limits.step.as_millis())
                .await
                .map_err(|error| error::from_database(&error))?;
            Filling { session, pool, table, order }.run().await
        })
        .await
}

impl Filling<'_> {
    async fn run(mut self) -> Result<ToppedUp> {
        if !self.lock().await? {
            self.end().await?;
            return Ok(ToppedUp::Busy);
        }
        // Whoever held the lock before may have filled it.
        let level = self.level().await?;
        let missing = self.order.size.saturating_sub(level);
        if missing == 0 {
            self.end().await?;
            return Ok(ToppedUp::Full { level });
        }
        let drawn = self.draw(missing).await?;
        if drawn.is_empty() {
            self.end().await?;
            return Ok(ToppedUp::Exhausted);
        }
        let items = self.insert(drawn.clone()).await?;
        if self.table.has_outgrown_its_plans(items) {
            let analyze = format!("ANALYZE {}", self.table.table);
            self.session.batch(&analyze).await.map_err(|error| error::from_database(&error))?;
        }
        let (table, session) = (self.table, self.session);
        session.commit().await.map_err(|error| error::from_database(&error))?;
        table.add_to_level(write_count(items));
        Ok(ToppedUp::Added { drawn, items, level: table.level() })
    }

    /// Nothing was changed.
    async fn end(self) -> Result<()> {
        self.session.roll_back().await.map_err(|error| error::from_database(&error))
    }

    async fn one<T>(&mut self, keep: Keep, sql: &str, params: &[Param<'_>]) -> Result<T>
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let rows = self
            .session
            .query(keep, sql, params)
            .await
            .map_err(|error| error::from_database(&error))?;
        Ok(rows.first().ok_or_else(|| corrupt("a statement came to nothing"))?.get(0))
    }

    async fn lock(&mut self) -> Result<bool> {
        let key = self.table.lock_key;
        if !self.order.wait {
            let sql = "SELECT pg_try_advisory_xact_lock($1)";
            return self.one(Keep::Prepared, sql, &[(&key, Type::INT8)]).await;
        }
        let waited = self
            .session
            .query(Keep::Prepared, "SELECT pg_advisory_xact_lock($1)", &[(&key, Type::INT8)])
            .await;
        match waited {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(error::from_database(&error)),
        }
    }

    async fn level(&mut self) -> Result<u64> {
        let floor = self.table.floor_for_counting();
        let limit = write_count(self.order.size);
        let sql = count_sql(&self.table.table);
        let params: [Param<'_>; 2] = [(&floor, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
        let level = self.one(Keep::Never, &sql, &params).await?;
        if floor == Stamp::MIN {
            self.table.lower_floor(floor);
            self.table.note_look(false);
        }
        self.table.set_level(level);
        Ok(self.table.level())
    }

    async fn draw(&mut self, missing: u64) -> Result<Range<u64>> {
        let holder: Option<&str> = None;
        let wanted = serials_for(missing, self.order.acceptance).min(self.order.serials_max).max(1);
        let rows = self
            .session
            .query(
                Keep::Prepared,
                DRAW,
                &[
                    (&self.pool.type_id.0, Type::INT8),
                    (&self.pool.period, Type::TEXT),
                    (&write_count(wanted), Type::INT8),
                    (&write_serial(self.order.bounds.0)?, Type::INT8),
                    (&write_serial(self.order.bounds.1)?, Type::INT8),
                    (&holder, Type::TEXT),
                    (&self.order.revision, Type::INT8),
                ],
            )
            .await
            .map_err(|error| error::from_database(&error))?;
        read_draw(&rows)
    }

    /// Renders serials and inserts what comes of them. Returns how many were new.
    async fn insert(&mut self, drawn: Range<u64>) -> Result<u64> {
        let render = self.order.render.clone();
        let ids = tokio::task::spawn_blocking(move || render(drawn))
            .await
            .map_err(|error| StoreError::Unavailable(format!("rendering failed: {error}")))?;
        let count = f64::from(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        let params: [Param<'_>; 3] = [
            (&self.pool.type_id.0, Type::INT8),
            (&self.pool.period, Type::TEXT),
            (&count, Type::FLOAT8),
        ];
        let base: Stamp = self.one(Keep::Prepared, TIMES, &params).await?;
        let sql = insert_sql(&self.table.table);
        let added: i64 = self
            .one(Keep::Never, &sql, &[(&ids, Type::TEXT_ARRAY), (&base, Type::TIMESTAMPTZ)])
            .await?;
        u64::try_from(added).map_err(|_| corrupt("a count is negative"))
    }
}

/// How many serials it takes to get so many IDs.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is an estimate, and the conversion keeps to the bounds of the type"
)]
fn serials_for(ids: u64, acceptance: f64) -> u64 {
    (ids as f64 / acceptance.clamp(1e-6, 1.0)).ceil() as u64
}
