//! An ID type at work: its format, and the pools that it issues from.

use std::sync::Arc;

use arc_swap::ArcSwap;
use idgen::error::ParseError;
use idgen::format::{Format, Parsed};
use idgen::sequence::{SequenceFormat, SequenceOn};
use idgen::spec::{Kind, SERIAL_MAX};
use storage::{StoredType, TypeState};

use crate::error::IssueError;
use crate::issuing::{IdList, LogWriter, Pool, PoolMaker, Renderer, SnowflakeLine};
use crate::surroundings::{date_of, day_of};

/// An ID type at work.
pub struct LiveType {
    stored: StoredType,
    format: Arc<Format>,
    pub(crate) line: Line,
}

/// Where the IDs of a type come from.
pub(crate) enum Line {
    Random(Arc<Pool>),
    Sequence(SequenceLine),
    Snowflake(Arc<SnowflakeLine>),
    /// Issues nothing, and this is why.
    Closed(IssueError),
}

/// A sequence type, whose pool may change with the date.
pub(crate) struct SequenceLine {
    format: SequenceFormat,
    today: ArcSwap<Today>,
}

/// A sequence type on one day.
pub(crate) struct Today {
    day: i64,
    on: SequenceOn,
    pub(crate) pool: Arc<Pool>,
}

impl LiveType {
    /// Puts a type to work. One that cannot work answers every request with the reason.
    pub(crate) fn new(stored: StoredType, format: Format, pools: &PoolMaker) -> Self {
        let format = Arc::new(format);
        let gapless = matches!(stored.id_type.kind(), Kind::Sequence(spec) if spec.gapless);
        let line = if stored.state == TypeState::Retired {
            Line::Closed(IssueError::Retired)
        } else if gapless {
            Line::Closed(IssueError::Gapless)
        } else {
            match &*format {
                Format::Random(random) => {
                    let renderer = Renderer::Random(Arc::clone(&format));
                    let bounds = (0, random.serials());
                    Line::Random(Arc::new(pools.make(&stored, String::new(), renderer, bounds)))
                }
                Format::Sequence(sequence) => match Today::new(&stored, sequence, pools, None) {
                    Ok(today) => Line::Sequence(SequenceLine {
                        format: sequence.clone(),
                        today: ArcSwap::from_pointee(today),
                    }),
                    Err(error) => Line::Closed(error),
                },
                Format::Snowflake(snowflake) => {
                    let line = SnowflakeLine::new(&stored, *snowflake, pools.snowflakes.clone());
                    Line::Snowflake(Arc::new(line))
                }
            }
        };
        Self { stored, format, line }
    }

    /// Gives up everything that the type has drawn and not handed out.
    pub(crate) async fn close(&self, log: &LogWriter) {
        match &self.line {
            Line::Snowflake(line) => log.close_line(line).await,
            _ => {
                if let Some(pool) = self.pool() {
                    log.give_back(&pool).await;
                }
            }
        }
    }

    /// As it is stored.
    pub fn stored(&self) -> &StoredType {
        &self.stored
    }

    /// How its IDs look.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The same, for those who keep it.
    pub fn share_format(&self) -> Arc<Format> {
        Arc::clone(&self.format)
    }

    /// Whether it was deleted.
    pub(crate) fn is_retired(&self) -> bool {
        self.stored.state == TypeState::Retired
    }

    /// `tenant/name`.
    pub(crate) fn label(&self) -> String {
        self.stored.id_type.label()
    }

    /// The serial behind an ID, and the counter that it is from, where the ID tells. A snowflake is its
    /// own serial.
    pub fn serial_of(&self, id: &str) -> Result<(u64, Option<String>), ParseError> {
        let format = self.format();
        Ok(match (format.parse(id)?, format) {
            (Parsed::Sequence(serial, shown), Format::Sequence(format)) => {
                (serial, format.reset().period_shown(shown))
            }
            (Parsed::Sequence(serial, _) | Parsed::Random(serial), _) => (serial, None),
            (Parsed::Snowflake(_), _) => {
                let digits: String = id.chars().filter(char::is_ascii_digit).collect();
                (digits.parse().map_err(|_| ParseError::OutOfRange)?, None)
            }
        })
    }

    /// The pool that the type issues from now, if it has one.
    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        match &self.line {
            Line::Random(pool) => Some(Arc::clone(pool)),
            Line::Sequence(line) => Some(Arc::clone(&line.today.load().pool)),
            Line::Snowflake(_) | Line::Closed(_) => None,
        }
    }
}

impl SequenceLine {
    /// The sequence as of now. On a new day also returns the pool of a period that is over.
    pub(crate) fn today(
        &self,
        stored: &StoredType,
        pools: &PoolMaker,
    ) -> Result<(Arc<Today>, Option<Arc<Pool>>), IssueError> {
        let today = self.today.load_full();
        if today.day == day_of(pools.now_ms()) {
            return Ok((today, None));
        }
        let next = Arc::new(Today::new(stored, &self.format, pools, Some(&today))?);
        let before = self.today.compare_and_swap(&today, Arc::clone(&next));
        if !Arc::ptr_eq(&before, &today) {
            // Another request was first; its pool is the one to use.
            return Ok((Arc::clone(&before), None));
        }
        let over = (!Arc::ptr_eq(&today.pool, &next.pool)).then(|| Arc::clone(&today.pool));
        Ok((next, over))
    }
}

impl Today {
    fn new(
        stored: &StoredType,
        format: &SequenceFormat,
        pools: &PoolMaker,
        before: Option<&Self>,
    ) -> Result<Self, IssueError> {
        let now = pools.snowflakes.clock.now();
        let date = date_of(now);
        let on = format.on(date)?;
        let period = format.reset().period(date);
        let pool = match before {
            Some(before) if before.pool.period == period => Arc::clone(&before.pool),
            _ => {
                let bounds = (format.start(), SERIAL_MAX);
                Arc::new(pools.make(stored, period, Renderer::Sequence, bounds))
            }
        };
        Ok(Self { day: day_of(now.as_millisecond()), on, pool })
    }

    /// Writes serials as IDs of this day.
    pub(crate) fn write(&self, serials: &[std::ops::Range<u64>]) -> IdList {
        let mut ids = IdList::default();
        for range in serials {
            self.on.for_each(range.clone(), |_, text| {
                ids.push(std::str::from_utf8(text).expect("templates are text"));
            });
        }
        ids
    }
}
