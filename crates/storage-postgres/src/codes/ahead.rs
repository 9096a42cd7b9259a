//! Tables of codes ahead of need, so that whoever writes rows finds them there.

use std::ops::Range;

use storage::{CODES_PER_TABLE, Result, TypeId};

use super::tables::parts;
use crate::PostgresStore;
use crate::database::Database;

/// The tables of so many serials behind a chunk are made when it is claimed, and in any case those of
/// the chunk that follows. Usually that is more than all workers do at once.
const SERIALS_AHEAD: u64 = CODES_PER_TABLE / 10;

/// The serials whose tables should be there while somebody works on a chunk.
pub(super) fn with_those_ahead(chunk: &Range<u64>) -> Range<u64> {
    let ahead = SERIALS_AHEAD.max(chunk.end - chunk.start);
    chunk.start..chunk.end.saturating_add(ahead)
}

impl PostgresStore {
    /// Makes the tables for a chunk that is claimed, and for those that come next.
    pub(crate) async fn make_tables_ahead(
        &self,
        shard: &Database,
        type_id: TypeId,
        chunk: &Range<u64>,
    ) {
        self.try_to_make_tables(shard, type_id, with_those_ahead(chunk)).await;
    }

    /// Makes the tables of some serials. If that does not work, or not at once, whoever writes the rows
    /// does it.
    pub(crate) async fn try_to_make_tables(
        &self,
        shard: &Database,
        type_id: TypeId,
        serials: Range<u64>,
    ) {
        let make = self.make_tables(shard, type_id, serials);
        match tokio::time::timeout(shard.limits.aside(), make).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!("no table of codes was made ahead: {error}"),
            Err(_) => tracing::debug!("no table of codes was made ahead: it takes too long"),
        }
    }

    async fn make_tables(
        &self,
        shard: &Database,
        type_id: TypeId,
        serials: Range<u64>,
    ) -> Result<()> {
        for (number, _) in parts(&serials) {
            // No batch goes on to there, and so none goes beyond.
            if self.code_table(shard, type_id, number).await?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_next_chunk_are_made_ahead() {
        let numbers = |chunk| parts(&with_those_ahead(&chunk)).map(|(number, _)| number);
        let size = CODES_PER_TABLE;
        assert_eq!(numbers(0..10).collect::<Vec<_>>(), [0]);
        let near_the_end = size - SERIALS_AHEAD - 9;
        assert_eq!(numbers(near_the_end - 1..near_the_end + 9).collect::<Vec<_>>(), [0]);
        assert_eq!(numbers(near_the_end..near_the_end + 10).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(numbers(0..2 * size).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
