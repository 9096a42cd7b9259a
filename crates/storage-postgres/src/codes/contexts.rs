//! What came along with scans.

use futures_util::future::join_all;
use storage::{CodeKey, KeptContext, PlacedContext, Result, ScanContext};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::Repeat;
use crate::error;
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

const LIST: &str = "
    SELECT number, scanned_at, key_id, context FROM scan_contexts
    WHERE type_id = $1 AND serial = $2 AND number < $3
    ORDER BY number DESC LIMIT $4";

/// By their places, which never change because rows do not, so that none is looked for twice.
const FORGET: &str = "
    DELETE FROM scan_contexts WHERE ctid = ANY (ARRAY (
        SELECT ctid FROM scan_contexts WHERE scanned_at < $1 ORDER BY scanned_at LIMIT $2
        FOR UPDATE SKIP LOCKED))
    RETURNING 1";

/// What came along with scans of codes in one table, column by column.
#[derive(Default)]
pub(super) struct Contexts<'a> {
    serials: Vec<i64>,
    /// How many scans of its code the step counts behind each.
    behind: Vec<i64>,
    keys: Vec<i64>,
    texts: Vec<&'a str>,
}

impl<'a> Contexts<'a> {
    /// Adds what came along with one of so many scans of a code.
    pub(super) fn add(&mut self, serial: u64, scans: u64, placed: &'a PlacedContext) {
        self.serials.push(write_count(serial));
        self.behind.push(write_count(scans.saturating_sub(placed.nth)));
        self.keys.push(placed.context.key_id);
        self.texts.push(&placed.context.json);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.serials.is_empty()
    }

    /// In the order in which a statement that [keeps](super::sql::Along) them wants them.
    pub(super) fn params(&self) -> [Param<'_>; 4] {
        [
            (&self.serials, Type::INT8_ARRAY),
            (&self.behind, Type::INT8_ARRAY),
            (&self.keys, Type::INT8_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
        ]
    }
}

fn read_context(row: &Row) -> Result<KeptContext> {
    Ok(KeptContext {
        number: read_serial(row.get("number"))?,
        scanned_at: row.get::<_, Time>("scanned_at").0,
        context: ScanContext { key_id: row.get("key_id"), json: row.get("context") },
    })
}

impl PostgresStore {
    pub(super) async fn list_contexts(
        &self,
        key: &CodeKey,
        before: u64,
        limit: usize,
    ) -> Result<Vec<KeptContext>> {
        let Some(shard) = self.shard_of(key.type_id) else { return Ok(Vec::new()) };
        let (serial, before) = (write_count(key.serial), write_count(before));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let params: [Param<'_>; 4] = [
            (&key.type_id.0, Type::INT8),
            (&serial, Type::INT8),
            (&before, Type::INT8),
            (&limit, Type::INT8),
        ];
        let rows = shard.query(Repeat::Always, LIST, &params).await?;
        rows.iter().map(read_context).collect()
    }

    pub(super) async fn forget_contexts(&self, before: Time, limit: u32) -> Result<u64> {
        self.forget_everywhere(FORGET, before, limit).await
    }

    /// Deletes what is older than a time on every shard, and says how many rows these were. One that does
    /// not answer does not keep the others from it: it is an error only when they have nothing left.
    pub(super) async fn forget_everywhere(
        &self,
        sql: &str,
        before: Time,
        limit: u32,
    ) -> Result<u64> {
        let limit = i64::from(limit);
        let params: [Param<'_>; 2] = [(&before, Type::TIMESTAMPTZ), (&limit, Type::INT8)];
        let shards = self.databases.iter().map(|shard| shard.query(Repeat::Always, sql, &params));
        let (mut forgotten, mut failed) = (0, None);
        for rows in join_all(shards).await {
            match rows {
                Ok(rows) => forgotten += rows.len() as u64,
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if forgotten == 0 => Err(error::heard_of(error)),
            _ => Ok(forgotten),
        }
    }
}
