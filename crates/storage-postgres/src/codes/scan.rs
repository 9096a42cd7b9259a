//! Counting scans: one statement for each table that the codes are in.

use storage::{CodeKey, CodeStatus, Ledger, PlacedContext, Result, Void};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::contexts::Contexts;
use super::sql::Along;
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
pub(super) struct Group<'a> {
    pub(super) table: CodeTable,
    pub(super) ledger: Ledger,
    /// Where each code is in what was asked.
    places: Vec<usize>,
    serials: Vec<i64>,
    batches: Vec<i64>,
    scans: Vec<i64>,
    contexts: Contexts<'a>,
}

impl<'a> Group<'a> {
    pub(super) fn new(
        table: CodeTable,
        asked: &[(CodeKey, u64)],
        places: &[usize],
        contexts: &'a [PlacedContext],
    ) -> Self {
        let column = |value: fn(&(CodeKey, u64)) -> i64| {
            places.iter().map(|place| value(&asked[*place])).collect()
        };
        let of = |place: usize| group_of(&asked[place].0);
        let mut own = Contexts::default();
        for placed in contexts.iter().filter(|placed| of(placed.code) == of(places[0])) {
            let (key, scans) = &asked[placed.code];
            own.add(key.serial, *scans, placed);
        }
        Self {
            table,
            ledger: asked[places[0]].0.ledger,
            places: places.to_vec(),
            serials: column(|(key, _)| write_count(key.serial)),
            batches: column(|(key, _)| key.batch.0),
            scans: column(|(_, scans)| write_count(*scans)),
            contexts: own,
        }
    }

    /// Whether the statement has to keep anything.
    pub(super) fn along(&self) -> Along {
        if self.contexts.is_empty() { Along::Nothing } else { Along::Contexts }
    }

    /// What counts, without what came along.
    pub(super) fn params<'b>(&'b self, type_id: &'b i64, now: &'b Time) -> Vec<Param<'b>> {
        vec![
            (&self.serials, Type::INT8_ARRAY),
            (&self.batches, Type::INT8_ARRAY),
            (&self.scans, Type::INT8_ARRAY),
            (type_id, Type::INT8),
            (now, Type::TIMESTAMPTZ),
        ]
    }

    /// What came along, to be added behind all the others.
    pub(super) fn params_along(&self) -> impl Iterator<Item = Param<'_>> {
        let params = (self.along() == Along::Contexts).then(|| self.contexts.params());
        params.into_iter().flatten()
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

/// Codes with the same are counted by one statement.
fn group_of(key: &CodeKey) -> (u64, Ledger) {
    (table_number(key.serial), key.ledger)
}

/// The same for everybody, so that no two wait for each other: table, ledger, serial.
fn place_in_order((key, _): &(CodeKey, u64)) -> (u64, bool, u64) {
    (table_number(key.serial), key.ledger == Ledger::Derived, key.serial)
}

impl PostgresStore {
    pub(super) async fn count_scans(
        &self,
        asked: &[(CodeKey, u64)],
        contexts: &[PlacedContext],
        now: Time,
    ) -> Result<Vec<Option<CodeStatus>>> {
        let mut found = vec![None; asked.len()];
        let Some((first, _)) = asked.first() else { return Ok(found) };
        let Some(shard) = self.shard_of(first.type_id) else { return Ok(found) };
        let mut places: Vec<usize> = (0..asked.len()).collect();
        places.sort_by_key(|place| place_in_order(&asked[*place]));
        let mut groups = Vec::new();
        for places in places.chunk_by(|a, b| group_of(&asked[*a].0) == group_of(&asked[*b].0)) {
            let number = table_number(asked[places[0]].0.serial);
            if let Some(table) = self.code_table(shard, first.type_id, number).await? {
                groups.push(Group::new(table, asked, places, contexts));
            }
        }
        match groups.as_slice() {
            [] => {}
            // Not repeated without knowing: a scan must not count twice.
            [group] => {
                let sql = sql::count(&group.table, group.ledger, group.along());
                let mut params = group.params(&first.type_id.0, &now);
                params.extend(group.params_along());
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
    groups: &[Group<'_>],
    type_id: i64,
    now: Time,
    found: &mut [Option<CodeStatus>],
) -> Result<()> {
    let failed = |error: tokio_postgres::Error| error::from_database(&error);
    let params = |group| {
        let mut params = Group::params(group, &type_id, &now);
        params.extend(group.params_along());
        params
    };
    let params: Vec<_> = groups.iter().map(params).collect();
    let statements: Vec<_> = groups
        .iter()
        .zip(&params)
        .map(|(group, params)| Statement {
            keep: group.table.keep,
            sql: sql::count(&group.table, group.ledger, group.along()),
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
