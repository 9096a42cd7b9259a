//! An ID type with its key, ready for work.

use std::ops::Range;

use jiff::civil::Date;

use crate::error::{ParseError, RenderError};
use crate::key::TypeKey;
use crate::random::RandomFormat;
use crate::sequence::{SequenceFormat, ShownDate};
use crate::snowflake::{SnowflakeFormat, SnowflakeParts};
use crate::spec::{IdType, Kind};

/// A compiled ID type.
#[derive(Debug)]
pub enum Format {
    /// See [`SequenceFormat`].
    Sequence(SequenceFormat),
    /// See [`RandomFormat`].
    Random(Box<RandomFormat>),
    /// See [`SnowflakeFormat`].
    Snowflake(SnowflakeFormat),
}

/// What an ID says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The serial, and the date as far as the template shows it.
    Sequence(u64, ShownDate),
    /// The serial.
    Random(u64),
    /// Time, node and counter.
    Snowflake(SnowflakeParts),
}

impl Format {
    /// Compiles an ID type. The key is used by random types only.
    pub fn new(id_type: &IdType, key: &TypeKey) -> Self {
        match id_type.kind() {
            Kind::Sequence(spec) => {
                Self::Sequence(SequenceFormat::new(spec, id_type.tenant(), id_type.name()))
            }
            Kind::Random(spec) => Self::Random(Box::new(RandomFormat::new(spec, key))),
            Kind::Snowflake(spec) => Self::Snowflake(SnowflakeFormat::new(spec)),
        }
    }

    /// The ID of a serial, issued on a date. A snowflake has no serial, so every one is out of
    /// range.
    pub fn render(&self, serial: u64, date: Date) -> Result<String, RenderError> {
        match self {
            Self::Sequence(format) => format.on(date)?.render(serial),
            Self::Random(format) => format.render(serial),
            Self::Snowflake(_) => Err(RenderError::OutOfRange),
        }
    }

    /// Appends every ID of a range of serials, issued on a date, to the buffer, each followed by a
    /// line feed, and returns how many there were. The range is cut off at the ends of the space;
    /// snowflakes have no serials.
    pub fn render_range(
        &self,
        range: Range<u64>,
        date: Date,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, RenderError> {
        match self {
            Self::Sequence(format) => Ok(format.on(date)?.render_range(range, buffer)),
            Self::Random(format) => Ok(format.render_range(range, buffer)),
            Self::Snowflake(_) => Err(RenderError::OutOfRange),
        }
    }

    /// Reads an ID back.
    pub fn parse(&self, text: &str) -> Result<Parsed, ParseError> {
        match self {
            Self::Sequence(format) => {
                format.parse(text).map(|(serial, date)| Parsed::Sequence(serial, date))
            }
            Self::Random(format) => format.parse(text).map(Parsed::Random),
            Self::Snowflake(format) => format.parse(text).map(Parsed::Snowflake),
        }
    }
}
