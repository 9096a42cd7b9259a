//! Codes: their tables, and what happens to single ones.

mod ahead;
mod copy;
mod scan;
mod sql;
mod tables;

use async_trait::async_trait;
use jiff::Timestamp;
use storage::{CodeKey, CodeStatus, CodeStore, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::batches::read_void;
use crate::database::Repeat;
use crate::session::Param;
use crate::spans::read_serial;
use crate::time::Time;

pub(crate) use copy::copy_pieces;
pub(crate) use tables::{CodeTable, CodeTables, parts};

fn read_status(row: &Row) -> Result<CodeStatus> {
    let own = read_void(row, "void_at", "void_reason");
    Ok(CodeStatus {
        scans: read_serial(row.get("scans"))?,
        first_scanned_at: row.get::<_, Option<Time>>("first_scanned_at").map(|time| time.0),
        void: own.or_else(|| read_void(row, "recalled_at", "recall_reason")),
    })
}

impl PostgresStore {
    /// Runs a statement about one code. Doing it twice is the same as once.
    async fn one_code(
        &self,
        key: &CodeKey,
        sql: impl Fn(&CodeTable) -> String + Send,
        more: &[Param<'_>],
    ) -> Result<Option<CodeStatus>> {
        let (Ok(serial), Some(shard)) = (i64::try_from(key.serial), self.shard_of(key.type_id))
        else {
            return Ok(None);
        };
        let number = tables::table_number(key.serial);
        let Some(table) = self.code_table(shard, key.type_id, number).await? else {
            return Ok(None);
        };
        let mut params: Vec<Param<'_>> =
            vec![(&key.batch.0, Type::INT8), (&key.type_id.0, Type::INT8), (&serial, Type::INT8)];
        params.extend_from_slice(more);
        let rows = shard.query_as(table.keep, Repeat::Always, &sql(&table), &params).await?;
        rows.first().map(read_status).transpose()
    }
}

#[async_trait]
impl CodeStore for PostgresStore {
    async fn scan(
        &self,
        scans: &[(CodeKey, u64)],
        now: Timestamp,
    ) -> Result<Vec<Option<CodeStatus>>> {
        self.count_scans(scans, Time::new(now)).await
    }

    async fn code(&self, key: &CodeKey) -> Result<Option<CodeStatus>> {
        self.one_code(key, |table| sql::look(&table.name), &[]).await
    }

    async fn void_code(
        &self,
        key: &CodeKey,
        reason: &str,
        now: Timestamp,
    ) -> Result<Option<CodeStatus>> {
        let now = Time::new(now);
        let more: [Param<'_>; 3] =
            [(&reason, Type::TEXT), (&now, Type::TIMESTAMPTZ), (&key.id, Type::INT8)];
        self.one_code(key, |table| sql::make_void(&table.name, key.ledger), &more).await
    }
}
