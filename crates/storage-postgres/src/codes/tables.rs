//! The tables of codes: of each type two for so many serials, one with the codes and one with what
//! happened to them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use storage::{CODES_PER_TABLE, Result, TypeId};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::session::Keep;

/// So many tables have their statements prepared on every connection.
const PREPARED_MAX: usize = 128;

/// The tables that are known to be there.
#[derive(Default)]
pub(crate) struct CodeTables(Mutex<HashMap<(TypeId, u64), Keep>>);

impl CodeTables {
    fn lock(&self) -> MutexGuard<'_, HashMap<(TypeId, u64), Keep>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, type_id: TypeId, number: u64) -> Keep {
        let mut tables = self.lock();
        let keep = if tables.len() < PREPARED_MAX { Keep::Prepared } else { Keep::Never };
        *tables.entry((type_id, number)).or_insert(keep)
    }

    pub(crate) fn forget(&self, type_id: TypeId, number: u64) {
        self.lock().remove(&(type_id, number));
    }
}

/// Tables that are there.
pub(crate) struct CodeTable {
    /// Rows that are written once: serial and ID.
    pub(crate) codes: String,
    /// What happened to some of them.
    pub(super) marks: String,
    /// Whether statements about it are prepared.
    pub(super) keep: Keep,
}

impl CodeTable {
    fn new(ending: &str, keep: Keep) -> Self {
        Self { codes: format!("codes_{ending}"), marks: format!("marks_{ending}"), keep }
    }
}

/// The number of the table that a serial is in.
pub(super) fn table_number(serial: u64) -> u64 {
    serial / CODES_PER_TABLE
}

/// Serials, table by table.
pub(crate) fn parts(serials: &Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
    let Range { mut start, end } = serials.clone();
    std::iter::from_fn(move || {
        let number = table_number(start);
        let stop = end.min((number + 1).saturating_mul(CODES_PER_TABLE));
        let part = (start < end).then_some((number, start..stop));
        start = stop;
        part
    })
}

impl PostgresStore {
    /// A table of codes, which is made if it was not there. None if no batch has codes for it.
    pub(crate) async fn code_table(
        &self,
        shard: &Database,
        type_id: TypeId,
        number: u64,
    ) -> Result<Option<CodeTable>> {
        let ending = format!("{}_{number}", type_id.0);
        let known = self.code_tables.lock().get(&(type_id, number)).copied();
        if let Some(keep) = known {
            return Ok(Some(CodeTable::new(&ending, keep)));
        }
        let start = number.saturating_mul(CODES_PER_TABLE);
        let rows = shard
            .query(
                Repeat::Always,
                "SELECT make_code_tables($1, $2, $3, $4)",
                &[
                    (&ending, Type::TEXT),
                    (&type_id.0, Type::INT8),
                    (&write_count(start), Type::INT8),
                    (&write_count(start.saturating_add(CODES_PER_TABLE)), Type::INT8),
                ],
            )
            .await?;
        let is_there = rows.first().is_some_and(|row| row.get(0));
        Ok(is_there.then(|| CodeTable::new(&ending, self.code_tables.add(type_id, number))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_split_where_tables_end() {
        let all = |serials: Range<u64>| parts(&serials).collect::<Vec<_>>();
        let size = CODES_PER_TABLE;
        assert_eq!(all(0..size), [(0, 0..size)]);
        assert_eq!(all(size..size + 1), [(1, size..size + 1)]);
        assert_eq!(
            all(size - 1..2 * size + 1),
            [(0, size - 1..size), (1, size..2 * size), (2, 2 * size..2 * size + 1)]
        );
        assert_eq!(all(5..5), []);
    }
}
