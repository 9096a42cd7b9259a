//! Counters: how far each has been drawn, and who holds what is not accounted for.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use storage::{
    CounterStore, Draw, Gap, GapReason, GivenBack, Losses, Result, Span, StoreError, TypeId,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::database::Repeat;
use crate::error::{self, corrupt};
use crate::gaps::{COLUMNS, read_gap};
use crate::session::Param;
use crate::spans::{SpanColumns, read_serial, read_serials, read_span, write_serial};
use crate::time::Time;
use crate::{PostgresStore, shard_number};

/// Draws, also as a part of filling a pool.
pub(crate) const DRAW: &str = "
    SELECT first AS start, behind AS stop FROM draw_serials($1, $2, $3, $4, $5, $6, $7)";

const OPEN_DRAWS: &str = "
    SELECT type_id, period, lower(span) AS start, upper(span) AS stop
    FROM draws CROSS JOIN unnest(open) AS span
    WHERE holder = $1 ORDER BY type_id, period, start";

/// What a draw returned.
pub(crate) fn read_draw(rows: &[Row]) -> Result<Range<u64>> {
    read_serials(rows.first().ok_or_else(|| corrupt("a draw came to nothing"))?)
}

/// A count for the database. More than there can be is as many as there can be.
pub(crate) fn write_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl PostgresStore {
    /// Spans by their shard.
    fn by_shard<'a>(spans: &'a [Span]) -> Vec<Vec<&'a Span>> {
        let mut sorted: Vec<&'a Span> = spans.iter().collect();
        sorted.sort_by_key(|span| shard_number(span.type_id));
        sorted
            .chunk_by(|a, b| shard_number(a.type_id) == shard_number(b.type_id))
            .map(<[&Span]>::to_vec)
            .collect()
    }
}

#[async_trait]
impl CounterStore for PostgresStore {
    /// A draw whose answer got lost is repeated: what it took is on record as the holder's, and
    /// only goes unused.
    async fn draw(&self, draw: Draw<'_>) -> Result<Range<u64>> {
        let rows = self
            .shard(draw.type_id)?
            .query(
                Repeat::Always,
                DRAW,
                &[
                    (&draw.type_id.0, Type::INT8),
                    (&draw.period, Type::TEXT),
                    (&write_count(draw.count), Type::INT8),
                    (&write_serial(draw.bounds.0)?, Type::INT8),
                    (&write_serial(draw.bounds.1)?, Type::INT8),
                    (&draw.holder, Type::TEXT),
                    (&draw.revision, Type::INT8),
                ],
            )
            .await?;
        read_draw(&rows)
    }

    /// Never repeated without knowing: the counter may have been turned back, and the same serials
    /// drawn again since.
    async fn give_back(&self, span: &Span, holder: &str, now: Timestamp) -> Result<GivenBack> {
        if span.serials.is_empty() {
            return Err(StoreError::NotFound("draw"));
        }
        let rows = self
            .shard(span.type_id)?
            .query(
                Repeat::Undone,
                "SELECT give_back_serials($1, $2, $3, $4, $5, $6)",
                &[
                    (&span.type_id.0, Type::INT8),
                    (&span.period, Type::TEXT),
                    (&write_serial(span.serials.start)?, Type::INT8),
                    (&write_serial(span.serials.end)?, Type::INT8),
                    (&holder, Type::TEXT),
                    (&Time::new(now), Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        match rows.first().and_then(|row| row.get(0)) {
            Some(true) => Ok(GivenBack::ToCounter),
            Some(false) => Ok(GivenBack::Gap),
            None => Err(StoreError::NotFound("draw")),
        }
    }

    async fn hand_over(&self, spans: &[Span], from: &str, to: &str) -> Result<()> {
        try_join_all(Self::by_shard(spans).into_iter().map(|spans| async move {
            let columns = SpanColumns::new(spans.iter().copied())?;
            let mut params = columns.params().to_vec();
            params.extend([(&from as _, Type::TEXT), (&to as _, Type::TEXT)]);
            self.shard(spans[0].type_id)?
                .query(Repeat::Always, "SELECT hand_over_serials($1, $2, $3, $4, $5, $6)", &params)
                .await
        }))
        .await
        .map_err(error::heard_of)?;
        Ok(())
    }

    async fn open_draws(&self, holder: &str) -> Result<Vec<Span>> {
        let params: [Param<'_>; 1] = [(&holder, Type::TEXT)];
        let rows = try_join_all(
            self.databases
                .iter()
                .map(|database| database.query(Repeat::Always, OPEN_DRAWS, &params)),
        )
        .await?;
        rows.iter().flatten().map(read_span).collect()
    }

    async fn close_draws(
        &self,
        holder: &str,
        spans: &[Span],
        reason: GapReason,
        now: Timestamp,
    ) -> Result<Vec<Gap>> {
        let rows = try_join_all(Self::by_shard(spans).into_iter().map(|spans| async move {
            let columns = SpanColumns::new(spans.iter().copied())?;
            let (why, detected) = (reason.name(), Time::new(now));
            let mut params = columns.params().to_vec();
            params.extend([
                (&holder as _, Type::TEXT),
                (&why as _, Type::TEXT),
                (&detected as _, Type::TIMESTAMPTZ),
            ]);
            self.shard(spans[0].type_id)?
                .query(
                    Repeat::Undone,
                    &format!(
                        "SELECT {COLUMNS} FROM close_draws($5, $1, $2, $3, $4, $6, $7) ORDER BY id"
                    ),
                    &params,
                )
                .await
        }))
        .await
        .map_err(error::heard_of)?;
        rows.iter().flatten().map(read_gap).collect()
    }

    async fn close_lost_draws(
        &self,
        instance: &str,
        grace: Duration,
        now: Timestamp,
    ) -> Result<Losses> {
        self.close_lost(instance, grace, now).await
    }

    async fn counters(&self, type_id: TypeId) -> Result<Vec<(String, u64)>> {
        let Some(shard) = self.shard_of(type_id) else { return Ok(Vec::new()) };
        let rows = shard
            .query(
                Repeat::Always,
                "SELECT period, next FROM counters WHERE type_id = $1 ORDER BY period",
                &[(&type_id.0, Type::INT8)],
            )
            .await?;
        rows.iter().map(|row| Ok((row.get(0), read_serial(row.get(1))?))).collect()
    }

    async fn pool_epoch(&self, server: &str, now: Timestamp) -> Result<u64> {
        let rows = self
            .catalogue()
            .query(
                Repeat::Always,
                "SELECT pool_epoch($1, $2)",
                &[(&server, Type::TEXT), (&Time::new(now), Type::TIMESTAMPTZ)],
            )
            .await?;
        read_serial(rows.first().ok_or_else(|| corrupt("no epoch came back"))?.get(0))
    }

    async fn current_pool_epoch(&self) -> Result<Option<u64>> {
        let rows = self
            .catalogue()
            .query(Repeat::Always, "SELECT epoch FROM pool_epochs ORDER BY epoch DESC LIMIT 1", &[])
            .await?;
        rows.first().map(|row| read_serial(row.get(0))).transpose()
    }
}
