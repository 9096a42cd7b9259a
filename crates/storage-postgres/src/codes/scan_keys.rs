//! Scans that came with a key, and count once.

use storage::{CodeKey, CodeStatus, PlacedContext, Result, ScanContext, ScanKey};
use tokio_postgres::types::Type;

use super::scan::Group;
use super::sql;
use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error::{self, corrupt};
use crate::session::{Keep, Param, Statement};
use crate::spans::read_serial;
use crate::time::Time;

/// Whoever comes with the same key at the same time waits here.
const TAKE: &str = "
    INSERT INTO scan_keys (key, counted_at) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";

/// What was not counted leaves nothing behind.
const LEAVE: &str = "DELETE FROM scan_keys WHERE key = $1 AND scans IS NULL";

const COUNTED: &str = "SELECT scans FROM scan_keys WHERE key = $1";

const FORGET: &str = "
    DELETE FROM scan_keys WHERE key IN (
        SELECT key FROM scan_keys WHERE counted_at < $1 ORDER BY counted_at LIMIT $2
        FOR UPDATE SKIP LOCKED)
    RETURNING 1";

impl PostgresStore {
    pub(super) async fn count_once(
        &self,
        key: &CodeKey,
        once: &ScanKey,
        context: Option<&ScanContext>,
        now: Time,
    ) -> Result<Option<CodeStatus>> {
        let Some((shard, table, _)) = self.find(key).await? else { return Ok(None) };
        let asked = [(*key, 1)];
        let placed =
            |context: &ScanContext| PlacedContext { code: 0, nth: 1, context: context.clone() };
        let contexts: Vec<_> = context.map(placed).into_iter().collect();
        let group = Group::new(table, &asked, &[0], &contexts);
        let once = once.as_slice();
        let rows = count(shard, &group, key.type_id.0, &once, now).await?;
        let mut found = [None];
        group.read(&rows, &mut found)?;
        let [Some(status)] = found else { return self.counted(shard, key, &once).await };
        Ok(Some(status))
    }

    /// How a code stands whose scan was not counted: because it was before, or because there is none.
    async fn counted(
        &self,
        shard: &Database,
        key: &CodeKey,
        once: &&[u8],
    ) -> Result<Option<CodeStatus>> {
        let rows = shard.query(Repeat::Always, COUNTED, &[(once, Type::BYTEA)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let scans =
            row.get::<_, Option<i64>>(0).ok_or_else(|| corrupt("a scan without a number"))?;
        let status = storage::CodeStore::code(self, key).await?;
        let scans = read_serial(scans)?;
        Ok(status.map(|status| CodeStatus { scans, ..status }))
    }

    pub(super) async fn forget_keys(&self, before: Time, limit: u32) -> Result<u64> {
        self.forget_everywhere(FORGET, before, limit).await
    }
}

/// Takes the key and counts, in one transaction and one round trip.
async fn count(
    shard: &Database,
    group: &Group<'_>,
    type_id: i64,
    once: &&[u8],
    now: Time,
) -> Result<Vec<tokio_postgres::Row>> {
    let take: [Param<'_>; 2] = [(once, Type::BYTEA), (&now, Type::TIMESTAMPTZ)];
    let mut counting = group.params(&type_id, &now);
    counting.push((once, Type::BYTEA));
    counting.extend(group.params_along());
    let statements = [
        Statement { keep: Keep::Prepared, sql: TAKE.to_owned(), params: &take },
        Statement {
            keep: group.table.keep,
            sql: sql::count_once(&group.table, group.ledger, group.along()),
            params: &counting,
        },
        Statement { keep: Keep::Prepared, sql: LEAVE.to_owned(), params: &take[..1] },
    ];
    let limit_ms = shard.limits.step.as_millis();
    let mut rows = shard
        .within(shard.limits.step, async {
            let session = shard.session().await?;
            let counted = session.transact(limit_ms, limit_ms, &statements).await;
            counted.map_err(|error| error::from_database(&error))
        })
        .await?;
    Ok(rows.swap_remove(1))
}
