//! Gaps: serials that will never carry anything, each with a reason; and the search for serials that
//! nothing explains.

use std::sync::Arc;

use idgen::format::Format;
use storage::{Gap, GapFilter, GapReason, GapTotals, SignOff, Span, StoreError};
use tracing::warn;

use crate::LiveType;
use crate::catalogue::Catalogue;
use crate::surroundings::Common;

/// Serials that one step of the reconciliation looks at.
const SERIALS_AT_ONCE: u64 = 1_000_000;

/// Tells gaps, and finds those that nobody has told.
pub struct Gaps {
    common: Common,
    catalogue: Arc<Catalogue>,
}

impl Gaps {
    pub(crate) fn new(common: &Common, catalogue: Arc<Catalogue>) -> Arc<Self> {
        Arc::new(Self { common: common.clone(), catalogue })
    }

    /// Gaps of a type, oldest first.
    pub async fn list(&self, filter: &GapFilter) -> Result<Vec<Gap>, StoreError> {
        self.common.store.list_gaps(filter).await
    }

    /// The first and the last ID of each gap, where they are on record: the date that an ID shows may be
    /// any of its period.
    pub async fn written(
        &self,
        live: &LiveType,
        gaps: &[Gap],
    ) -> Result<Vec<[Option<String>; 2]>, StoreError> {
        let has_ids = |gap: &Gap| {
            matches!(
                gap.reason,
                GapReason::OutboxDlq
                    | GapReason::Abandoned
                    | GapReason::ReservationExpired
                    | GapReason::ReservationReleased
            )
        };
        if !matches!(live.format(), Format::Sequence(_)) || !gaps.iter().any(has_ids) {
            return Ok(vec![[None, None]; gaps.len()]);
        }
        let ends = |gap: &Gap| {
            let Span { period, serials, .. } = &gap.span;
            [serials.start, serials.end - 1].map(|serial| (period.clone(), serial))
        };
        let numbers: Vec<_> = gaps.iter().flat_map(ends).collect();
        let ids = self.common.store.written_ids(live.stored().id, &numbers).await?;
        let mut ids = ids.into_iter();
        let mut next = || ids.next().flatten();
        Ok(gaps.iter().map(|_| [next(), next()]).collect())
    }

    /// How many gaps match, whatever the page is.
    pub async fn count(&self, filter: &GapFilter) -> Result<GapTotals, StoreError> {
        self.common.store.count_gaps(filter).await
    }

    /// Records that somebody has accepted a gap. The first one stays. None if there is no such gap.
    pub async fn sign_off(
        &self,
        live: &LiveType,
        gap: i64,
        key_id: i64,
        note: String,
    ) -> Result<Option<Gap>, StoreError> {
        let sign_off = SignOff { key_id, at: self.common.now(), note };
        self.common.store.sign_off_gap(live.stored().id, gap, &sign_off).await
    }

    /// Looks at what was drawn since the last time, type by type. Whoever else does so at the same time
    /// leaves the types alone that are being looked at.
    pub(crate) async fn reconcile(&self) -> Result<(), StoreError> {
        let mut failure = None;
        for live in self.catalogue.all() {
            // The counters of snowflakes are clocks: most of their serials never were anything.
            if matches!(live.format(), Format::Snowflake(_)) {
                continue;
            }
            // A shard that is down must not keep the types of others from being looked at.
            if let Err(problem) = self.reconcile_type(&live).await {
                failure = Some(problem);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn reconcile_type(&self, live: &LiveType) -> Result<(), StoreError> {
        let (type_id, label) = (live.stored().id, live.label());
        loop {
            let now = self.common.now();
            let step = self.common.store.reconcile(type_id, SERIALS_AT_ONCE, now).await?;
            let serials = |gap: &Gap| gap.span.serials.end - gap.span.serials.start;
            let lost: u64 = step.found.iter().map(serials).sum();
            if lost > 0 {
                self.common.metrics.serials_unexplained.inc_by(lost);
                warn!(id_type = label, lost, "nothing explains {lost} serials of {label}");
            }
            if step.done {
                return Ok(());
            }
        }
    }
}
