//! Codes: their tables, and what happens to single ones.

mod ahead;
mod contexts;
mod copy;
mod scan;
mod scan_keys;
mod sql;
mod tables;

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{
    BatchId, BatchRange, CodeKey, CodeStatus, CodeStore, KeptContext, PlacedContext, Result,
    ScanContext, ScanKey, TypeId,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::batches::{read_ledger, read_void};
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::session::{Keep, Param};
use crate::spans::{read_serial, read_serials};
use crate::time::Time;
use crate::{PostgresStore, shard_number};

pub(crate) use copy::copy_pieces;
pub(crate) use tables::{CodeTable, CodeTables, parts};

/// Metadata may be large, so nothing is read that a scan does not need.
const RANGES: &str = "
    SELECT id, start, stop, ledger FROM batches WHERE type_id = $1 AND start >= $2
    ORDER BY start LIMIT $3";

fn read_range(row: &Row) -> Result<BatchRange> {
    Ok(BatchRange {
        id: BatchId(row.get("id")),
        serials: read_serials(row)?,
        ledger: read_ledger(row)?,
    })
}

/// What happened to a code itself.
fn read_mark(row: &Row) -> Result<CodeStatus> {
    Ok(CodeStatus {
        scans: read_serial(row.get("scans"))?,
        first_scanned_at: row.get::<_, Option<Time>>("first_scanned_at").map(|time| time.0),
        void: read_void(row, "void_at", "void_reason"),
    })
}

/// The same, and what happened to its batch.
fn read_status(row: &Row) -> Result<CodeStatus> {
    let mark = read_mark(row)?;
    let void = mark.void.or_else(|| read_void(row, "recalled_at", "recall_reason"));
    Ok(CodeStatus { void, ..mark })
}

/// What names a code in a statement, as it is sent.
struct Place {
    batch: i64,
    type_id: i64,
    serial: i64,
}

impl Place {
    /// None if there can be no such code.
    fn of(key: &CodeKey) -> Option<Self> {
        let serial = i64::try_from(key.serial).ok()?;
        Some(Self { batch: key.batch.0, type_id: key.type_id.0, serial })
    }

    fn params(&self) -> [Param<'_>; 3] {
        [(&self.batch, Type::INT8), (&self.type_id, Type::INT8), (&self.serial, Type::INT8)]
    }
}

impl PostgresStore {
    /// Where a code is. None if there can be no such code.
    async fn find(&self, key: &CodeKey) -> Result<Option<(&Database, CodeTable, Place)>> {
        let (Some(place), Some(shard)) = (Place::of(key), self.shard_of(key.type_id)) else {
            return Ok(None);
        };
        let number = tables::table_number(key.serial);
        let table = self.code_table(shard, key.type_id, number).await?;
        Ok(table.map(|table| (shard, table, place)))
    }

    /// Asks the replica of a type's shard, if there is one.
    async fn read_from_replica(
        &self,
        type_id: TypeId,
        keep: Keep,
        sql: &str,
        params: &[Param<'_>],
    ) -> Option<Row> {
        let shard = shard_number(type_id);
        let replica = self.replicas.iter().find(|replica| replica.shard == shard)?;
        replica.read_one(keep, sql, params).await
    }
}

#[async_trait]
impl CodeStore for PostgresStore {
    async fn batch_ranges(
        &self,
        type_id: TypeId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<BatchRange>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(Vec::new()) };
        let (from, limit) = (write_count(from), i64::try_from(limit).unwrap_or(i64::MAX));
        let params: [Param<'_>; 3] =
            [(&type_id.0, Type::INT8), (&from, Type::INT8), (&limit, Type::INT8)];
        let rows = shard.query(Repeat::Always, RANGES, &params).await?;
        rows.iter().map(read_range).collect()
    }

    async fn scan(
        &self,
        scans: &[(CodeKey, u64)],
        contexts: &[PlacedContext],
        now: Timestamp,
    ) -> Result<Vec<Option<CodeStatus>>> {
        self.count_scans(scans, contexts, Time::new(now)).await
    }

    async fn scan_once(
        &self,
        key: &CodeKey,
        once: &ScanKey,
        context: Option<&ScanContext>,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>> {
        self.count_once(key, once, context, Time::new(now)).await
    }

    async fn forget_scan_keys(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.forget_keys(Time::new(before), limit).await
    }

    async fn scan_contexts(
        &self,
        key: &CodeKey,
        before: u64,
        limit: usize,
    ) -> Result<Vec<KeptContext>> {
        self.list_contexts(key, before, limit).await
    }

    async fn forget_scan_contexts(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.forget_contexts(Time::new(before), limit).await
    }

    async fn code(&self, key: &CodeKey) -> Result<Option<CodeStatus>> {
        let Some((shard, table, place)) = self.find(key).await? else { return Ok(None) };
        let (sql, params) = (sql::look(&table, key.ledger), place.params());
        let rows = shard.query_as(table.keep, Repeat::Always, &sql, &params).await?;
        rows.first().map(read_status).transpose()
    }

    async fn code_from_copy(&self, key: &CodeKey) -> Result<Option<CodeStatus>> {
        let Some((_, table, place)) = self.find(key).await? else { return Ok(None) };
        let (sql, params) = (sql::look(&table, key.ledger), place.params());
        match self.read_from_replica(key.type_id, table.keep, &sql, &params).await {
            Some(row) => read_status(&row).map(Some),
            None => self.code(key).await,
        }
    }

    async fn void_code(
        &self,
        key: &CodeKey,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>> {
        let Some((shard, table, place)) = self.find(key).await? else { return Ok(None) };
        let (sql, now) = (sql::make_void(&table, key.ledger), Time::new(now));
        let [batch, type_id, serial] = place.params();
        let params = [batch, type_id, serial, (&reason, Type::TEXT), (&now, Type::TIMESTAMPTZ)];
        // Doing it twice is the same as once.
        let rows = shard.query_as(table.keep, Repeat::Always, &sql, &params).await?;
        rows.first().map(read_status).transpose()
    }
}
