//! The issue log: writing.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use jiff::Timestamp;
use storage::{
    Gap, GapFilter, GapTotals, IssueGroup, IssueRecord, IssueStore, Reconciled, Result, SignOff,
    Span, TypeId, packing,
};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::database::{Database, Repeat};
use crate::error;
use crate::spans::{SpanColumns, write_serial};
use crate::time::Time;

// One statement, one transaction, one round trip, however many groups there are. Each part takes its
// locks before the next one, in the order that all functions keep to: types, draws, gaps.
const RECORD: &str = "
    WITH logged AS MATERIALIZED (
        SELECT write_log($9, $10, $11, $12, $13, $14)
    ), taken AS MATERIALIZED (
        SELECT take_off_draws($1, $2, $3, $4) FROM logged
    )
    SELECT take_off_gaps($5, $6, $7, $8) FROM taken";

/// Rows of the log, column by column.
#[derive(Default)]
struct LogColumns<'a> {
    types: Vec<i64>,
    periods: Vec<&'a str>,
    widths: Vec<i16>,
    starts: Vec<i64>,
    stops: Vec<i64>,
    entries: Vec<Vec<u8>>,
}

impl<'a> LogColumns<'a> {
    fn new(groups: &[&'a IssueGroup]) -> Result<Self> {
        // A group that comes twice in different lengths is one row: the longer one.
        let mut rows: BTreeMap<_, &IssueGroup> = BTreeMap::new();
        for group in groups {
            let serials = &group.span.serials;
            let Some(width_log2) = serials.end.saturating_sub(serials.start).checked_ilog2() else {
                continue;
            };
            // One without issues is written, too: it says that a filter rejected these serials, and
            // nothing else does.
            let key = (group.span.type_id, &group.span.period, width_log2, serials.start);
            let longest = rows.entry(key).or_insert(group);
            if serials.end > longest.span.serials.end {
                *longest = group;
            }
        }
        let mut columns = Self::default();
        for ((type_id, period, width_log2, start), group) in rows {
            columns.types.push(type_id.0);
            columns.periods.push(period);
            columns.widths.push(i16::try_from(width_log2).expect("a logarithm is below 64"));
            columns.starts.push(write_serial(start)?);
            columns.stops.push(write_serial(group.span.serials.end)?);
            columns.entries.push(packing::encode(start, &group.issues));
        }
        Ok(columns)
    }
}

/// What was really handed out: a gap around it stays one. Issues that follow one another are one
/// span.
fn issued(groups: &[&IssueGroup]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for group in groups {
        for issue in &group.issues {
            let Span { type_id, period, .. } = &group.span;
            let behind = issue.last.saturating_add(1);
            match spans.last_mut() {
                Some(before)
                    if (before.type_id, &before.period, before.serials.end)
                        == (*type_id, period, issue.first) =>
                {
                    before.serials.end = behind;
                }
                _ => spans.push(Span { serials: issue.first..behind, ..group.span.clone() }),
            }
        }
    }
    spans
}

async fn record(shard: &Database, groups: &[&IssueGroup]) -> Result<()> {
    let spans = SpanColumns::new(groups.iter().map(|group| &group.span))?;
    let issued = issued(groups);
    let issued = SpanColumns::new(&issued)?;
    let log = LogColumns::new(groups)?;
    let mut params = spans.params().to_vec();
    params.extend(issued.params());
    params.extend([
        (&log.types as _, Type::INT8_ARRAY),
        (&log.periods as _, Type::TEXT_ARRAY),
        (&log.widths as _, Type::INT2_ARRAY),
        (&log.starts as _, Type::INT8_ARRAY),
        (&log.stops as _, Type::INT8_ARRAY),
        (&log.entries as _, Type::BYTEA_ARRAY),
    ]);
    shard.query(Repeat::Always, RECORD, &params).await?;
    Ok(())
}

#[async_trait]
impl IssueStore for PostgresStore {
    async fn record_issues(&self, groups: &[IssueGroup]) -> Result<()> {
        let mut by_shard: BTreeMap<i64, Vec<&IssueGroup>> = BTreeMap::new();
        for group in groups {
            let shard = group.span.type_id.0.rem_euclid(crate::NUMBER_STEP);
            by_shard.entry(shard).or_default().push(group);
        }
        try_join_all(
            by_shard
                .values()
                .map(|groups| async { record(self.shard(groups[0].span.type_id)?, groups).await }),
        )
        .await
        .map_err(error::heard_of)?;
        Ok(())
    }

    async fn find_issues(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<IssueRecord>> {
        self.issues_at(type_id, period, serial).await
    }

    async fn list_gaps(&self, filter: &GapFilter) -> Result<Vec<Gap>> {
        self.gaps(filter).await
    }

    async fn count_gaps(&self, filter: &GapFilter) -> Result<GapTotals> {
        self.gap_totals(filter).await
    }

    async fn sign_off_gap(
        &self,
        type_id: TypeId,
        gap: i64,
        sign_off: &SignOff,
    ) -> Result<Option<Gap>> {
        self.accept_gap(type_id, gap, sign_off).await
    }

    async fn reconcile(
        &self,
        type_id: TypeId,
        serials_max: u64,
        now: Timestamp,
    ) -> Result<Reconciled> {
        self.look_for_losses(type_id, serials_max, Time::new(now)).await
    }

    async fn find_gaps(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Gap>> {
        self.gaps_at(type_id, period, serial).await
    }
}
