//! The counter that a type's documents are numbered by now, and how its numbers are written.

use std::ops::Range;
use std::sync::Arc;

use idgen::format::Format;
use idgen::sequence::SequenceOn;
use idgen::spec::{Kind, SERIAL_MAX};
use jiff::Timestamp;
use storage::Render;

use crate::LiveType;
use crate::error::IssueError;
use crate::surroundings::date_of;

/// A counter of a type.
#[derive(Clone)]
pub(super) struct Counter {
    revision: i64,
    period: String,
    bounds: (u64, u64),
    /// How a sequence is written today.
    sequence: Option<Arc<SequenceOn>>,
    /// Whether numbers are taken in the step that puts their documents on record.
    pub(super) gapless: bool,
}

impl Counter {
    /// The counter of a type as of now.
    pub(super) fn now(live: &LiveType, now: Timestamp) -> Result<Self, IssueError> {
        let revision = live.stored().revision;
        if live.is_retired() {
            return Err(IssueError::Retired);
        }
        match live.format() {
            Format::Sequence(format) => {
                let date = date_of(now);
                let gapless =
                    matches!(live.stored().id_type.kind(), Kind::Sequence(spec) if spec.gapless);
                Ok(Self {
                    revision,
                    period: format.reset().period(date),
                    bounds: (format.start(), SERIAL_MAX),
                    sequence: Some(Arc::new(format.on(date)?)),
                    gapless,
                })
            }
            Format::Random(format) => Ok(Self {
                revision,
                period: String::new(),
                bounds: (0, format.serials()),
                sequence: None,
                gapless: false,
            }),
            Format::Snowflake(_) => Err(IssueError::NoCounter),
        }
    }

    pub(super) fn period(&self) -> &str {
        &self.period
    }

    pub(super) fn bounds(&self) -> (u64, u64) {
        self.bounds
    }

    /// Whether this counts on where another one stands, by the same settings.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.revision, &self.period) == (other.revision, &other.period)
    }

    /// Writes the IDs of serials. Those that a filter rejects have none.
    pub(super) fn write(&self, live: &LiveType, serials: Range<u64>, ids: &mut Vec<(u64, String)>) {
        let mut push = |serial: u64, text: &[u8]| {
            ids.push((serial, String::from_utf8_lossy(text).into_owned()));
        };
        match (&self.sequence, live.format()) {
            (Some(sequence), _) => sequence.for_each(serials, push),
            (None, Format::Random(format)) => format.for_each(serials, &mut push),
            (None, _) => {}
        }
    }

    /// The same for a step that takes the numbers itself.
    pub(super) fn render(&self, live: &Arc<LiveType>) -> Render {
        let (counter, live) = (self.clone(), Arc::clone(live));
        Arc::new(move |serials| {
            let mut ids = Vec::new();
            counter.write(&live, serials, &mut ids);
            ids.into_iter().map(|(_, id)| id).collect()
        })
    }
}
