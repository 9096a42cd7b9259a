//! Lists of batches and of dead letters, over all shards.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use storage::{Batch, BatchFilter, DeadChunk, DeadFilter, Result, TypeId};
use tokio_postgres::types::Type;

use super::rows::{columns, read_batch, read_dead};
use crate::counters::write_count;
use crate::database::{Database, Repeat};
use crate::session::Param;
use crate::{NUMBER_STEP, PostgresStore};

fn list_all_sql() -> String {
    format!(
        "SELECT {} FROM batches
         WHERE ($1::text IS NULL OR state = $1) AND id < $2
         ORDER BY id DESC LIMIT $3",
        columns()
    )
}

// The latest of each type, by its index, and of these the latest.
fn list_types_sql() -> String {
    format!(
        "SELECT {} FROM unnest($4::bigint[]) AS wanted (wanted_type)
         CROSS JOIN LATERAL (
             SELECT * FROM batches
             WHERE type_id = wanted_type AND ($1::text IS NULL OR state = $1) AND id < $2
             ORDER BY id DESC LIMIT $3) AS batch
         ORDER BY id DESC LIMIT $3",
        columns()
    )
}

/// Which serials of a batch are made. Once all are, the chunks need not be looked at.
pub(super) const MADE: &str = "
    SELECT lower(span) AS start, upper(span) AS stop
    FROM batches CROSS JOIN LATERAL unnest(
        CASE WHEN made = batches.stop - batches.start
            THEN int8multirange(int8range(batches.start, batches.stop))
            ELSE (SELECT range_agg(int8range(chunks.start, chunks.stop)) FROM chunks
                  WHERE batch_id = batches.id AND chunks.state = 'done') END) AS span
    WHERE id = $1 ORDER BY start";

const LIST_DEAD: &str = "
    SELECT chunks.batch_id, batches.type_id, chunks.number, chunks.start, chunks.stop,
           chunks.attempts, chunks.error, chunks.died_at
    FROM chunks JOIN batches ON batches.id = chunks.batch_id
    WHERE chunks.state = 'dead' AND (chunks.batch_id, chunks.number) > ($1, $2)
      AND ($3::bigint IS NULL OR chunks.batch_id = $3)
      AND ($4::bigint IS NULL OR chunks.number = $4)
      AND ($5::bigint[] IS NULL OR batches.type_id = ANY ($5))
    ORDER BY chunks.batch_id, chunks.number LIMIT $6";

impl PostgresStore {
    /// The shards that can have rows of some types, and which types these are. No list is all types.
    fn shards_of(&self, types: Option<&[TypeId]>) -> Vec<(&Database, Option<Vec<i64>>)> {
        let Some(types) = types else {
            return self.databases.iter().map(|shard| (shard, None)).collect();
        };
        let mut by_shard: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for id in types {
            by_shard.entry(id.0.rem_euclid(NUMBER_STEP)).or_default().push(id.0);
        }
        let found = by_shard.into_values().filter_map(|mut types| {
            types.sort_unstable();
            types.dedup();
            self.shard_of(TypeId(types[0])).map(|shard| (shard, Some(types)))
        });
        found.collect()
    }

    pub(super) async fn list_batches(&self, filter: &BatchFilter) -> Result<Vec<Batch>> {
        let state = filter.state.map(storage::BatchState::name);
        let before = filter.before.map_or(i64::MAX, |batch| batch.0);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let shards = self.shards_of(filter.types.as_deref());
        let rows = try_join_all(shards.into_iter().map(|(shard, types)| async move {
            let mut params: Vec<Param<'_>> =
                vec![(&state, Type::TEXT), (&before, Type::INT8), (&limit, Type::INT8)];
            match &types {
                None => shard.query(Repeat::Always, &list_all_sql(), &params).await,
                Some(types) => {
                    params.push((types, Type::INT8_ARRAY));
                    shard.query(Repeat::Always, &list_types_sql(), &params).await
                }
            }
        }))
        .await?;
        let mut batches = rows.iter().flatten().map(read_batch).collect::<Result<Vec<Batch>>>()?;
        batches.sort_by_key(|batch| std::cmp::Reverse(batch.id));
        batches.truncate(filter.limit);
        Ok(batches)
    }

    pub(super) async fn list_dead(&self, filter: &DeadFilter) -> Result<Vec<DeadChunk>> {
        let batch = filter.batch.map(|batch| batch.0);
        let number = filter.chunk.map(write_count);
        let (after, after_number) =
            filter.after.map_or((i64::MIN, 0), |(batch, number)| (batch.0, write_count(number)));
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let mut shards = self.shards_of(filter.types.as_deref());
        if let Some(batch) = filter.batch {
            let its_shard = self.shard_of_batch(batch);
            shards.retain(|(shard, _)| its_shard.is_some_and(|its| std::ptr::eq(its, *shard)));
        }
        let rows = try_join_all(shards.into_iter().map(|(shard, types)| async move {
            let params: [Param<'_>; 6] = [
                (&after, Type::INT8),
                (&after_number, Type::INT8),
                (&batch, Type::INT8),
                (&number, Type::INT8),
                (&types, Type::INT8_ARRAY),
                (&limit, Type::INT8),
            ];
            shard.query(Repeat::Always, LIST_DEAD, &params).await
        }))
        .await?;
        let mut dead = rows.iter().flatten().map(read_dead).collect::<Result<Vec<DeadChunk>>>()?;
        dead.sort_by_key(|chunk| (chunk.batch, chunk.number));
        dead.truncate(filter.limit);
        Ok(dead)
    }
}
