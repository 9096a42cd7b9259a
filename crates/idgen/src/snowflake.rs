//! Snowflakes: 41 bits of milliseconds, 10 bits of node, 12 bits of counter.
//!
//! The layout is ferroid's. Its generators read a clock and wait for one that stepped back; here
//! the time is an argument, and a clock that stepped back uses up the counter of the last
//! millisecond before anybody has to wait.

use std::time::Duration;

use ferroid::id::{SnowflakeId as _, SnowflakeTwitterId as Layout};
use jiff::Timestamp;
use serde::Serialize;

use crate::alphabet::is_separator;
use crate::error::ParseError;

/// 2024-01-01T00:00:00Z.
const DEFAULT_EPOCH: Timestamp = Timestamp::constant(1_704_067_200, 0);

/// Largest node number.
pub const NODE_MAX: u16 = 1023;

/// Settings of a snowflake type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnowflakeSpec {
    /// The instant that timestamps are counted from, such as `2024-01-01T00:00:00Z`.
    pub epoch: Timestamp,
}

impl Default for SnowflakeSpec {
    fn default() -> Self {
        Self { epoch: DEFAULT_EPOCH }
    }
}

/// Why no snowflake can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SnowflakeError {
    /// The node does not fit in ten bits.
    #[error("node {0} does not exist; nodes are 0 to {NODE_MAX}")]
    Node(u16),
    /// The clock is wrong, or the epoch.
    #[error("the clock is before the epoch of the ID type")]
    BeforeEpoch,
    /// 41 bits of milliseconds are used up.
    #[error("the lifetime of the ID type is over")]
    LifetimeOver,
}

/// What a snowflake was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnowflakeParts {
    /// When, in milliseconds since 1970.
    pub unix_ms: i64,
    /// By which node.
    pub node: u16,
    /// Which one of that millisecond.
    pub counter: u16,
}

/// A snowflake type, ready to parse and to start generators.
#[derive(Debug, Clone, Copy)]
pub struct SnowflakeFormat {
    epoch_ms: i64,
}

impl SnowflakeFormat {
    pub(crate) fn new(spec: &SnowflakeSpec) -> Self {
        Self { epoch_ms: spec.epoch.as_millisecond() }
    }

    /// How long IDs can still be made, seen from a time in milliseconds since 1970.
    pub fn remaining(self, unix_ms: i64) -> Duration {
        let end = i128::from(self.epoch_ms) + i128::from(Layout::max_timestamp()) + 1;
        Duration::from_millis(u64::try_from(end - i128::from(unix_ms)).unwrap_or(0))
    }

    /// A generator for a node. `high_water_ms` is the latest time that a generator of this node
    /// may have used; nothing is made at or before it.
    pub fn generator(
        self,
        node: u16,
        high_water_ms: Option<i64>,
    ) -> Result<SnowflakeGenerator, SnowflakeError> {
        if node > NODE_MAX {
            return Err(SnowflakeError::Node(node));
        }
        let last_ms = match high_water_ms.map(|ms| self.since_epoch(ms)) {
            None | Some(Err(SnowflakeError::BeforeEpoch)) => 0,
            Some(result) => result?,
        };
        let last = Layout::from_components(last_ms, node.into(), Layout::max_sequence());
        Ok(SnowflakeGenerator { format: self, last })
    }

    /// The smallest ID of a time in milliseconds since 1970: no ID of that time or later is below
    /// it, and none of an earlier time is not.
    pub fn first_id_at(self, unix_ms: i64) -> Result<u64, SnowflakeError> {
        let ms = self.since_epoch(unix_ms)?;
        Ok(Layout::from_components(ms, 0, 0).to_raw())
    }

    /// The last millisecond since 1970 whose IDs are all below a number, if there is one.
    pub fn last_ms_before(self, id: u64) -> Option<i64> {
        let part_of_a_millisecond = Layout::from_components(1, 0, 0).to_raw();
        let ms = i64::try_from(id.div_ceil(part_of_a_millisecond)).ok()?;
        (ms > 0).then(|| self.epoch_ms + ms - 1)
    }

    /// Takes an ID apart.
    pub fn parse(self, text: &str) -> Result<SnowflakeParts, ParseError> {
        let mut raw = 0u64;
        let mut found = 0;
        for (i, character) in text.chars().enumerate().filter(|(_, c)| !is_separator(*c)) {
            let digit = character.to_digit(10).filter(|digit| found > 0 || *digit != 0).ok_or(
                ParseError::Symbol { character, position: i + 1, expected: "a digit".to_owned() },
            )?;
            raw = raw
                .checked_mul(10)
                .and_then(|raw| raw.checked_add(digit.into()))
                .ok_or(ParseError::OutOfRange)?;
            found += 1;
        }
        if found == 0 {
            return Err(ParseError::Length { expected: "1 to 19".to_owned(), found });
        }
        let id = Layout::from_raw(raw);
        if !id.is_valid() {
            return Err(ParseError::OutOfRange);
        }
        let part = |value: u64| u16::try_from(value).expect("at most twelve bits");
        Ok(SnowflakeParts {
            unix_ms: self.epoch_ms + i64::try_from(id.timestamp()).expect("41 bits"),
            node: part(id.machine_id()),
            counter: part(id.sequence()),
        })
    }

    fn since_epoch(self, unix_ms: i64) -> Result<u64, SnowflakeError> {
        let ms = u64::try_from(unix_ms.saturating_sub(self.epoch_ms))
            .map_err(|_| SnowflakeError::BeforeEpoch)?;
        if ms > Layout::max_timestamp() { Err(SnowflakeError::LifetimeOver) } else { Ok(ms) }
    }
}

/// The answer of a generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// An ID.
    Ready(u64),
    /// Nothing left for the current millisecond; ask again after this time.
    Wait(Duration),
}

/// Makes the snowflakes of one node. Two generators must never share a node.
#[derive(Debug)]
pub struct SnowflakeGenerator {
    format: SnowflakeFormat,
    /// The last ID made; the next one is always larger.
    last: Layout,
}

impl SnowflakeGenerator {
    /// The next ID at a time in milliseconds since 1970.
    pub fn next(&mut self, unix_ms: i64) -> Result<Next, SnowflakeError> {
        let now = self.format.since_epoch(unix_ms)?;
        let last = self.last.timestamp();
        if now > last {
            self.last = self.last.rollover_to_timestamp(now);
        } else if self.last.has_sequence_room() {
            self.last = self.last.increment_sequence();
        } else {
            return Ok(Next::Wait(Duration::from_millis(last - now + 1)));
        }
        Ok(Next::Ready(self.last.to_raw()))
    }

    /// The latest time that was used, in milliseconds since 1970.
    pub fn last_ms(&self) -> i64 {
        self.format.epoch_ms + i64::try_from(self.last.timestamp()).expect("41 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> SnowflakeFormat {
        SnowflakeFormat::new(&SnowflakeSpec::default())
    }

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn ids_grow_and_parse_back() {
        let mut generator = format().generator(5, None).unwrap();
        let mut last = 0;
        for counter in 0..4096 {
            let Next::Ready(id) = generator.next(NOW).unwrap() else { panic!("room for 4096") };
            assert!(id > last);
            last = id;
            let parts = format().parse(&id.to_string()).unwrap();
            assert_eq!(parts, SnowflakeParts { unix_ms: NOW, node: 5, counter });
        }
        assert_eq!(generator.next(NOW).unwrap(), Next::Wait(Duration::from_millis(1)));
    }

    #[test]
    fn a_clock_that_steps_back_never_repeats_an_id() {
        let mut generator = format().generator(0, None).unwrap();
        let mut seen = std::collections::HashSet::new();
        let mut waits = 0;
        for step in [0, 3, -2000, 1, 5, -1, 0, 7, -90_000, 9] {
            for _ in 0..2000 {
                match generator.next(NOW + step).unwrap() {
                    Next::Ready(id) => assert!(seen.insert(id)),
                    Next::Wait(_) => waits += 1,
                }
            }
        }
        assert!(waits > 0, "the counter must have run out while the clock was behind");
    }

    #[test]
    fn nothing_is_made_at_or_before_the_high_water_mark() {
        let mut generator = format().generator(0, Some(NOW)).unwrap();
        assert_eq!(generator.next(NOW - 10).unwrap(), Next::Wait(Duration::from_millis(11)));
        assert_eq!(generator.next(NOW).unwrap(), Next::Wait(Duration::from_millis(1)));
        assert!(matches!(generator.next(NOW + 1).unwrap(), Next::Ready(_)));
        assert_eq!(generator.last_ms(), NOW + 1);
    }

    #[test]
    fn lifetime_is_41_bits_of_milliseconds() {
        let epoch = DEFAULT_EPOCH.as_millisecond();
        assert_eq!(format().remaining(epoch), Duration::from_millis(1 << 41));
        let last = epoch + (1 << 41) - 1;
        assert_eq!(format().remaining(last), Duration::from_millis(1));
        assert_eq!(format().remaining(i64::MAX), Duration::ZERO);
        let mut generator = format().generator(0, None).unwrap();
        assert!(matches!(generator.next(last), Ok(Next::Ready(_))));
        assert_eq!(generator.next(last + 1), Err(SnowflakeError::LifetimeOver));
        assert_eq!(generator.next(epoch - 1), Err(SnowflakeError::BeforeEpoch));
    }

    #[test]
    fn a_time_is_a_range_of_ids() {
        let first = format().first_id_at(NOW).unwrap();
        let mut generator = format().generator(1023, format().last_ms_before(first)).unwrap();
        assert!(matches!(generator.next(NOW - 1).unwrap(), Next::Wait(_)));
        let Next::Ready(id) = generator.next(NOW).unwrap() else { panic!("room for one") };
        assert!((first..format().first_id_at(NOW + 1).unwrap()).contains(&id));
        assert_eq!(format().last_ms_before(first), Some(NOW - 1));
        assert_eq!(format().last_ms_before(first + 1), Some(NOW));
        assert_eq!(format().last_ms_before(0), None);
    }

    #[test]
    fn bad_input_is_refused() {
        assert_eq!(format().generator(1024, None).unwrap_err(), SnowflakeError::Node(1024));
        assert_eq!(format().parse("").unwrap_err().code(), "length");
        assert_eq!(format().parse("12x").unwrap_err().code(), "symbol");
        assert_eq!(format().parse("012").unwrap_err().code(), "symbol");
        assert_eq!(format().parse("18446744073709551615").unwrap_err().code(), "out_of_range");
        assert_eq!(format().parse("18446744073709551616").unwrap_err().code(), "out_of_range");
    }
}
