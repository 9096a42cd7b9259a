//! How fast the codes of a batch are made.

use jiff::Timestamp;
use storage::Batch;

/// Nothing is done in less, so no rate is beyond all measure.
const SECONDS_MIN: f64 = 0.001;

/// How fast, and how long it will take.
#[derive(Debug, PartialEq)]
pub(super) struct Pace {
    /// Codes per second.
    pub(super) rate: Option<f64>,
    /// Until all are made that can be.
    pub(super) eta_seconds: Option<f64>,
}

impl Pace {
    /// The time in which only dead letters were left does not count: nobody made anything. All of this is
    /// on record, so every instance says the same.
    #[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits")]
    pub(super) fn of(batch: &Batch, now: Timestamp) -> Self {
        let ended = batch.state.is_final();
        let Some(started) = batch.started_at.filter(|_| ended || batch.to_make() > 0) else {
            return Self { rate: None, eta_seconds: None };
        };
        let until = batch.idle_since.or(batch.finished_at).unwrap_or(now);
        let seconds = until.duration_since(started).as_secs_f64() - batch.idle.as_secs_f64();
        let rate = batch.made as f64 / seconds.max(SECONDS_MIN);
        let eta_seconds = (!ended && rate > 0.0).then(|| batch.to_make() as f64 / rate);
        Self { rate: Some(rate), eta_seconds }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use storage::{BatchId, BatchState, Ledger, TypeId};

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    /// A batch of a hundred codes that was begun at 0, in chunks of ten.
    fn batch(state: BatchState, made: u64, dead_chunks: u64) -> Batch {
        Batch {
            id: BatchId(1),
            type_id: TypeId(1),
            serials: 0..100,
            chunk_serials: 10,
            ledger: Ledger::Stored,
            state,
            made,
            abandoned: 0,
            dead_chunks,
            error: None,
            name: None,
            metadata: None,
            notify: None,
            key_id: 1,
            created_at: at(0),
            started_at: Some(at(0)),
            finished_at: None,
            idle_since: None,
            idle: Duration::ZERO,
            recalled: None,
        }
    }

    fn pace(rate: f64, eta_seconds: Option<f64>) -> Pace {
        Pace { rate: Some(rate), eta_seconds }
    }

    const NONE: Pace = Pace { rate: None, eta_seconds: None };

    #[test]
    fn what_is_left_takes_as_long_as_what_was_made() {
        let running = batch(BatchState::Running, 40, 0);
        assert_eq!(Pace::of(&running, at(20)), pace(2.0, Some(30.0)));
        let with_dead = batch(BatchState::NeedsAttention, 40, 1);
        assert_eq!(Pace::of(&with_dead, at(20)), pace(2.0, Some(25.0)), "the dead wait");
        let begun = batch(BatchState::Running, 0, 0);
        assert_eq!(Pace::of(&begun, at(20)), pace(0.0, None));
    }

    #[test]
    fn there_is_no_pace_while_nothing_is_made() {
        let queued = Batch { started_at: None, ..batch(BatchState::Queued, 0, 0) };
        assert_eq!(Pace::of(&queued, at(20)), NONE);
        let stuck = batch(BatchState::NeedsAttention, 80, 2);
        assert_eq!(Pace::of(&Batch { idle_since: Some(at(40)), ..stuck }, at(9000)), NONE);
    }

    #[test]
    fn waiting_for_somebody_does_not_count() {
        let idle = Duration::from_secs(7200);
        let retried = Batch { idle, ..batch(BatchState::Running, 80, 0) };
        assert_eq!(Pace::of(&retried, at(7240)), pace(2.0, Some(10.0)));
        let finished_at = Some(at(7250));
        let done = Batch { idle, finished_at, ..batch(BatchState::Completed, 100, 0) };
        assert_eq!(Pace::of(&done, at(9999)), pace(2.0, None));
        let stopped =
            Batch { idle_since: Some(at(40)), finished_at, ..batch(BatchState::Cancelled, 80, 0) };
        assert_eq!(Pace::of(&stopped, at(9999)), pace(2.0, None));
    }
}
