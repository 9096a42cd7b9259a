//! Counting scans: one statement for each table that the codes are in.

use storage::{CodeKey, CodeStatus, Ledger, Result, Void};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::tables::{CodeTable, table_number};
use super::{read_mark, sql};
use crate::PostgresStore;
use crate::batches::read_void;
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::error;
use crate::session::{Param, Statement};
use crate::time::Time;

/// Codes in one table that are remembered the same way, by serial, column by column.
pub(super) struct Group {
    pub(super) table: CodeTable,
    pub(super) ledger: Ledger,
    /// Where each code is in what was asked.
    places: Vec<usize>,
    serials: Vec<i64>,
    batches: Vec<i64>,
    scans: Vec<i64>,
}

impl Group {
    pub(super) fn new(table: CodeTable, asked: &[(CodeKey, u64)], places: &[usize]) -> Self {
        let column = |value: fn(&(CodeKey, u64)) -> i64| {
            places.iter().map(|place| value(&asked[*place])).collect()
        };
        Self {
            table,
            ledger: asked[places[0]].0.ledger,
            places: places.to_vec(),
            serials: column(|(key, _)| write_count(key.serial)),
            batches: column(|(key, _)| key.batch.0),
            scans: column(|(_, scans)| write_count(*scans)),
        }
    }

    pub(super) fn params<'a>(&'a self, type_id: &'a i64, now: &'a Time) -> [Param<'a>; 5] {
        [
            (&self.serials, Type::INT8_ARRAY),
            (&self.batches, Type::INT8_ARRAY),
            (&self.scans, Type::INT8_ARRAY),
            (type_id, Type::INT8),
            (now, Type::TIMESTAMPTZ),
        ]
    }

    /// Puts what came back where it was asked for.
    pub(super) fn read(&self, rows: &[Row], found: &mut [Option<CodeStatus>]) -> Result<()> {
        let recall = |row: &Row| {
            let batch = row.get::<_, Option<i64>>("recalled")?;
            Some((batch, read_void(row, "void_at", "void_reason")?))
        };
        let recalls: Vec<(i64, Void)> = rows.iter().filter_map(recall).collect();
        for row in rows {
            let serial = row.get::<_, Option<i64>>("serial");
            let place = serial.and_then(|serial| self.serials.binary_search(&serial).ok());
            let Some(place) = place else { continue };
            let mut status = read_mark(row)?;
            if status.void.is_none() {
                let mut recalls = recalls.iter();
                let recall = recalls.find(|(batch, _)| *batch == self.batches[place]);
                status.void = recall.map(|(_, void)| void.clone());
            }
            found[self.places[place]] = Some(status);
        }
        Ok(())
    }
}

/// The same for everybody, so that no two wait for each other: table, ledger, serial.
fn place_in_order((key, _): &(CodeKey, u64)) -> (u64, bool, u64) {
    (table_number(key.serial), key.ledger == Ledger::Derived, key.serial)
}

impl PostgresStore {
    pub(super) async fn count_scans(
        &self,
        asked: &[(CodeKey, u64)],
        now: Time,
    ) -> Result<Vec<Option<CodeStatus>>> {
        let mut found = vec![None; asked.len()];
        let Some((first, _)) = asked.first() else { return Ok(found) };
        let Some(shard) = self.shard_of(first.type_id) else { return Ok(found) };
        let mut places: Vec<usize> = (0..asked.len()).collect();
        places.sort_by_key(|place| place_in_order(&asked[*place]));
        let mut groups = Vec::new();
        for places in places.chunk_by(|a, b| {
            let ((a, a_ledger, _), (b, b_ledger, _)) =
                (place_in_order(&asked[*a]), place_in_order(&asked[*b]));
            (a, a_ledger) == (b, b_ledger)
        }) {
            let number = table_number(asked[places[0]].0.serial);
            if let Some(table) = self.code_table(shard, first.type_id, number).await? {
                groups.push(Group::new(table, asked, places));
            }
        }
        match groups.as_slice() {
            [] => {}
            // Not repeated without knowing: a scan must not count twice.
            [group] => {
                let sql = sql::count(&group.table, group.ledger);
                let params = group.params(&first.type_id.0, &now);
                let rows = shard.query_as(group.table.keep, Repeat::Undone, &sql, &params).await?;
                group.read(&rows, &mut found)?;
            }
            groups => count_together(shard, groups, first.type_id.0, now, &mut found).await?,
        }
        Ok(found)
    }
}

/// Several tables in one transaction, so that all scans count or none.
async fn count_together(
    shard: &Database,
    groups: &[Group],
    type_id: i64,
    now: Time,
    found: &mut [Option<CodeStatus>],
) -> Result<()> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let params: Vec<_> = groups.iter().map(|group| group.params(&type_id, &now)).collect();
    let statements: Vec<_> = groups
        .iter()
        .zip(&params)
        .map(|(group, params)| Statement {
            keep: group.table.keep,
            sql: sql::count(&group.table, group.ledger),
            params,
        })
        .collect();
    let limit_ms = shard.limits.step.as_millis();
    let rows = shard
        .within(shard.limits.step, async {
            let session = shard.session().await?;
            session.transact(limit_ms, limit_ms, &statements).await.map_err(failed)
        })
        .await?;
    groups.iter().zip(&rows).try_for_each(|(group, rows)| group.read(rows, found))
}
