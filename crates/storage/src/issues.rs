//! The issue log and the gaps: what became of every serial.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Result, Span, TypeId};

/// Serials that were handed out by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// First serial.
    pub first: u64,
    /// Last serial. Serials in between that a filter rejects were skipped.
    pub last: u64,
    /// The API key's number, or 0 where the server runs open.
    pub key_id: i64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Consecutive issues from one counter, written together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueGroup {
    /// Every serial that the group accounts for: from the first one that was not yet accounted
    /// for, up to and including serials behind the last issue that a filter rejects. Lies within
    /// one draw.
    pub span: Span,
    /// The issues, by serial. None if a filter rejected the whole span.
    pub issues: Vec<Issue>,
}

/// One issue, found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueRecord {
    /// The counter within the type.
    pub period: String,
    /// The issue.
    pub issue: Issue,
}

/// Why a serial will never carry anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// The process that had drawn it ended without a word. It may have been handed out just before.
    Crash,
    /// It was in a pool that was given up. Where the pool was shared, an instance that was gone
    /// before it could say so may have handed it out.
    PoolDiscarded,
    /// It was ordered with a batch that was cancelled before it was made.
    BatchCancelled,
    /// It was in a chunk of a batch that failed and was given up, or its document was.
    Abandoned,
    /// Its document could not be delivered. A person may have it tried again.
    OutboxDlq,
    /// It was on its way to a document, and the step that would have put both on record failed; or
    /// nobody knows.
    UntrackedLoss,
    /// It was held for somebody who did not come in time.
    ReservationExpired,
    /// It was held for somebody who gave it up.
    ReservationReleased,
}

impl GapReason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Crash,
        Self::PoolDiscarded,
        Self::BatchCancelled,
        Self::Abandoned,
        Self::OutboxDlq,
        Self::UntrackedLoss,
        Self::ReservationExpired,
        Self::ReservationReleased,
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::PoolDiscarded => "pool_discarded",
            Self::BatchCancelled => "batch_cancelled",
            Self::Abandoned => "abandoned",
            Self::OutboxDlq => "outbox_dlq",
            Self::UntrackedLoss => "untracked_loss",
            Self::ReservationExpired => "reservation_expired",
            Self::ReservationReleased => "reservation_released",
        }
    }
}

/// A range of serials that will never carry anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Its number.
    pub id: i64,
    /// The serials.
    pub span: Span,
    /// Why.
    pub reason: GapReason,
    /// When it was found.
    pub detected_at: Timestamp,
    /// When it was lost, where that was noted apart; see [`Gap::time_of_loss`].
    pub lost_at: Option<Timestamp>,
    /// The instance that lost it.
    pub instance: String,
    /// When it was over: its document has arrived after all, or another gap with another reason has
    /// taken its place.
    pub closed_at: Option<Timestamp>,
    /// Who has accepted it, and why.
    pub sign_off: Option<SignOff>,
}

impl Gap {
    /// When it was lost, where that is known. What was on an instance that is gone was lost no earlier
    /// than this: it is when the instance was last seen. What a step had that failed was lost when its
    /// instance found the store again and said so, usually within a second.
    pub fn time_of_loss(&self) -> Option<Timestamp> {
        let found_at_once = match self.reason {
            GapReason::BatchCancelled
            | GapReason::Abandoned
            | GapReason::OutboxDlq
            | GapReason::PoolDiscarded
            | GapReason::ReservationReleased => true,
            // Otherwise nobody knows who had it, and so not when.
            GapReason::UntrackedLoss => !self.instance.is_empty(),
            GapReason::Crash | GapReason::ReservationExpired => false,
        };
        self.lost_at.or(found_at_once.then_some(self.detected_at))
    }
}

/// That somebody has accepted a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOff {
    /// The API key's number, or 0 where the server ran open.
    pub key_id: i64,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub note: String,
}

/// Which gaps to list.
#[derive(Debug, Clone)]
pub struct GapFilter {
    /// Of which type.
    pub type_id: TypeId,
    /// Only with one of these reasons. Empty is all.
    pub reasons: Vec<GapReason>,
    /// Only those that hold serials from here on.
    pub from: Option<u64>,
    /// Only those that hold serials up to here.
    pub to: Option<u64>,
    /// Also those that are closed.
    pub with_closed: bool,
    /// Which part of the list.
    pub page: Page,
}

/// How many gaps there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GapTotals {
    /// Ranges.
    pub gaps: u64,
    /// Serials in them.
    pub serials: u64,
}

/// What a step of reconciliation has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Serials that were looked at.
    pub serials: u64,
    /// What nobody could explain. These are gaps with reason `untracked_loss` now.
    pub found: Vec<Gap>,
    /// Whether the counters have been looked at as far as they have been drawn.
    pub done: bool,
}

/// A part of a long list.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Continue behind this position; 0 is the beginning.
    pub after: i64,
    /// At most so many entries.
    pub limit: u32,
}

/// Remembers issues and gaps.
#[async_trait]
pub trait IssueStore {
    /// Writes groups to the log and takes their spans off the draws that they came from, whoever
    /// holds these. Where an instance was taken for gone and was not, its serials are gaps by now:
    /// what was issued after all is no gap, so it is taken off these, too. Groups that come from no
    /// draw only go to the log.
    async fn record_issues(&self, groups: &[IssueGroup]) -> Result<()>;

    /// The issue that a serial was handed out in, in any period or in one.
    async fn find_issues(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<IssueRecord>>;

    /// The gaps of a type, oldest first.
    async fn list_gaps(&self, filter: &GapFilter) -> Result<Vec<Gap>>;

    /// How many gaps match, whatever the page is.
    async fn count_gaps(&self, filter: &GapFilter) -> Result<GapTotals>;

    /// Records that somebody has accepted a gap, and returns it. The first one stays.
    async fn sign_off_gap(
        &self,
        type_id: TypeId,
        gap: i64,
        sign_off: &SignOff,
    ) -> Result<Option<Gap>>;

    /// Looks at the serials of a type's counters from where the last step stopped, so many at most, and
    /// makes gaps of those that nothing explains: no draw, issue, gap, batch, document or reservation.
    /// It reads ranges, and remembers how far it came. Of steps at the same time on one type all but one
    /// do nothing, and are done. Types whose IDs are in a pool table explain themselves there: a step on
    /// one does nothing.
    async fn reconcile(
        &self,
        type_id: TypeId,
        serials_max: u64,
        now: Timestamp,
    ) -> Result<Reconciled>;

    /// The gaps that hold a serial, in any period or in one.
    async fn find_gaps(
        &self,
        type_id: TypeId,
        period: Option<&str>,
        serial: u64,
    ) -> Result<Vec<Gap>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_lost_that_failed_was_lost_when_it_was_found() {
        let mut gap = Gap {
            id: 1,
            span: Span { type_id: TypeId(1), period: String::new(), serials: 5..6 },
            reason: GapReason::UntrackedLoss,
            detected_at: Timestamp::UNIX_EPOCH,
            lost_at: None,
            instance: "a".to_owned(),
            closed_at: None,
            sign_off: None,
        };
        assert_eq!(gap.time_of_loss(), Some(Timestamp::UNIX_EPOCH));
        gap.instance.clear();
        assert_eq!(gap.time_of_loss(), None);
    }
}
