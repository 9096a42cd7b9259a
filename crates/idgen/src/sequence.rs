//! Sequence types: the serial itself, in a template.

use std::ops::Range;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::alphabet::is_separator;
use crate::error::{ParseError, RenderError};
use crate::spec::{SERIAL_MAX, SequenceSpec};
use crate::template::{self, DatePart, Part};

/// When a sequence starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reset {
    /// One counter for ever.
    #[default]
    Never,
    /// A counter for each year.
    Yearly,
    /// A counter for each month.
    Monthly,
    /// A counter for each day.
    Daily,
}

impl Reset {
    /// The names used in ID types.
    pub(crate) const NAMES: [(&str, Self); 4] = [
        ("never", Self::Never),
        ("yearly", Self::Yearly),
        ("monthly", Self::Monthly),
        ("daily", Self::Daily),
    ];

    /// Names the counter that is used on a date: `2026`, `2026-11`, `2026-11-15`, or nothing.
    pub fn period(self, date: Date) -> String {
        match self {
            Self::Never => String::new(),
            Self::Yearly => format!("{:04}", date.year()),
            Self::Monthly => format!("{:04}-{:02}", date.year(), date.month()),
            Self::Daily => date.to_string(),
        }
    }

    /// Names the counter that an ID is from by the date that it shows. None if it does not show enough.
    pub fn period_shown(self, shown: ShownDate) -> Option<String> {
        let (month, day) = match self {
            Self::Never => return Some(String::new()),
            Self::Yearly => (1, 1),
            Self::Monthly => (shown.month?, 1),
            Self::Daily => (shown.month?, shown.day?),
        };
        Some(self.period(Date::new(shown.year?, month, day).ok()?))
    }
}

/// The parts of a date that an ID shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShownDate {
    /// Year, with its century.
    pub year: Option<i16>,
    /// Month, from 1.
    pub month: Option<i8>,
    /// Day of the month, from 1.
    pub day: Option<i8>,
}

impl ShownDate {
    /// Takes note of one part, unless it contradicts what is known.
    fn learn(&mut self, part: DatePart, digits: i16) -> Option<()> {
        fn agree<T: PartialEq + Copy>(known: &mut Option<T>, value: T) -> Option<()> {
            (*known.get_or_insert(value) == value).then_some(())
        }
        match part {
            DatePart::Year => agree(&mut self.year, digits),
            DatePart::YearOfCentury => agree(&mut self.year, CENTURY.0 + digits),
            DatePart::Month => agree(&mut self.month, i8::try_from(digits).ok()?),
            DatePart::Day => agree(&mut self.day, i8::try_from(digits).ok()?),
        }
    }

    /// Whether some day looks like this. What is not shown is taken to be as accommodating as
    /// possible: a leap year, a month of 31 days.
    fn is_possible(self) -> bool {
        let (year, month) = (self.year.unwrap_or(2000), self.month.unwrap_or(1));
        year >= 1 && Date::new(year, month, self.day.unwrap_or(1)).is_ok()
    }
}

/// `{yy}` stands for these years. A reset would otherwise give the same IDs a century later.
const CENTURY: (i16, i16) = (2000, 2099);
/// What `{yyyy}` can write.
const YEARS: (i16, i16) = (1, 9999);

/// One piece of an ID other than the number. All have a fixed width, so the number, whatever its
/// own width, is never ambiguous.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Date(DatePart),
}

/// A sequence type, ready to render and parse.
#[derive(Debug, Clone)]
pub struct SequenceFormat {
    before: Vec<Piece>,
    width: usize,
    after: Vec<Piece>,
    start: u64,
    reset: Reset,
}

impl SequenceFormat {
    /// Compiles a specification that has been validated.
    pub(crate) fn new(spec: &SequenceSpec, tenant: &str, name: &str) -> Self {
        let parts = template::parse(&spec.template).expect("a validated specification");
        let mut format = Self {
            before: Vec::new(),
            width: 1,
            after: Vec::new(),
            start: spec.start,
            reset: spec.reset,
        };
        let mut seen_seq = false;
        for part in parts {
            let piece = match part {
                Part::Seq(width) => {
                    format.width = width;
                    seen_seq = true;
                    continue;
                }
                Part::Literal(text) => Piece::Text(text),
                Part::Tenant => Piece::Text(tenant.to_owned()),
                Part::Type => Piece::Text(name.to_owned()),
                Part::Date(part) => Piece::Date(part),
            };
            if seen_seq { &mut format.after } else { &mut format.before }.push(piece);
        }
        format
    }

    /// The first serial of every period.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// When the sequence starts again.
    pub fn reset(&self) -> Reset {
        self.reset
    }

    /// Whether an ID depends on the date of issue.
    pub fn shows_date(&self) -> bool {
        self.before.iter().chain(&self.after).any(|piece| matches!(piece, Piece::Date(_)))
    }

    /// The format with the date of issue filled in.
    pub fn on(&self, date: Date) -> Result<SequenceOn, RenderError> {
        let pieces = || self.before.iter().chain(&self.after);
        let has = |part| pieces().any(|p| matches!(p, Piece::Date(found) if *found == part));
        let (from, to) = if has(DatePart::YearOfCentury) { CENTURY } else { YEARS };
        if !(from..=to).contains(&date.year()) && (has(DatePart::Year) || (from, to) == CENTURY) {
            return Err(RenderError::Year { from, to });
        }
        Ok(SequenceOn {
            before: fill(&self.before, date),
            width: self.width,
            after: fill(&self.after, date),
            start: self.start,
        })
    }

    /// The serial of an ID, and what it shows of its date.
    pub fn parse(&self, text: &str) -> Result<(u64, ShownDate), ParseError> {
        let normal: Vec<(usize, char)> =
            text.chars().enumerate().filter(|(_, c)| !is_separator(*c)).collect();
        let before = normal_width(&self.before);
        let after = normal_width(&self.after);
        let digits_len = normal
            .len()
            .checked_sub(before + after)
            .filter(|digits| *digits >= self.width)
            .ok_or_else(|| ParseError::Length {
                expected: format!("at least {}", before + self.width + after),
                found: normal.len(),
            })?;

        let mut date = ShownDate::default();
        let (head, rest) = normal.split_at(before);
        let (digits, tail) = rest.split_at(digits_len);
        match_pieces(&self.before, head, &mut date)?;
        match_pieces(&self.after, tail, &mut date)?;
        let serial = read_number(digits)?;
        if digits_len > self.width && digits[0].1 == '0' {
            return Err(unexpected(
                digits[0],
                format!("a number of {} digits or more", self.width),
            ));
        }
        match serial {
            Some(serial) if (self.start..SERIAL_MAX).contains(&serial) && date.is_possible() => {
                Ok((serial, date))
            }
            _ => Err(ParseError::OutOfRange),
        }
    }
}

fn fill(pieces: &[Piece], date: Date) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Date(DatePart::Year) => format!("{:04}", date.year()),
            Piece::Date(DatePart::YearOfCentury) => format!("{:02}", date.year() % 100),
            Piece::Date(DatePart::Month) => format!("{:02}", date.month()),
            Piece::Date(DatePart::Day) => format!("{:02}", date.day()),
        })
        .collect()
}

/// Characters of the pieces once separators are gone.
fn normal_width(pieces: &[Piece]) -> usize {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.chars().filter(|c| !is_separator(*c)).count(),
            Piece::Date(part) => part.digits(),
        })
        .sum()
}

fn match_pieces(
    pieces: &[Piece],
    text: &[(usize, char)],
    date: &mut ShownDate,
) -> Result<(), ParseError> {
    let mut rest = text;
    for piece in pieces {
        match piece {
            Piece::Text(literal) => {
                for expected in literal.chars().filter(|c| !is_separator(*c)) {
                    let (&found, after) = rest.split_first().expect("the width was checked");
                    if !found.1.to_lowercase().eq(expected.to_lowercase()) {
                        return Err(unexpected(found, format!("{expected:?}")));
                    }
                    rest = after;
                }
            }
            Piece::Date(part) => {
                let (digits, after) = rest.split_at(part.digits());
                let number = read_number(digits)?.and_then(|n| i16::try_from(n).ok());
                number.and_then(|n| date.learn(*part, n)).ok_or(ParseError::OutOfRange)?;
                rest = after;
            }
        }
    }
    Ok(())
}

/// A number in ASCII digits, or `None` if it does not fit in 64 bits.
fn read_number(digits: &[(usize, char)]) -> Result<Option<u64>, ParseError> {
    digits.iter().try_fold(Some(0u64), |number, &found| {
        let digit = found.1.to_digit(10).ok_or_else(|| unexpected(found, "a digit".to_owned()))?;
        Ok(number.and_then(|n| n.checked_mul(10)?.checked_add(digit.into())))
    })
}

fn unexpected((index, character): (usize, char), expected: String) -> ParseError {
    ParseError::Symbol { character, position: index + 1, expected }
}

/// A sequence type on one date: constant text on both sides of the number.
#[derive(Debug, Clone)]
pub struct SequenceOn {
    before: String,
    width: usize,
    after: String,
    start: u64,
}

impl SequenceOn {
    /// The ID of a serial.
    pub fn render(&self, serial: u64) -> Result<String, RenderError> {
        if !(self.start..SERIAL_MAX).contains(&serial) {
            return Err(RenderError::OutOfRange);
        }
        Ok(format!("{}{serial:0width$}{}", self.before, self.after, width = self.width))
    }

    /// Calls `each` with every serial of the range and its ID, in order. The range is cut off at
    /// both ends of the space.
    pub fn for_each(&self, range: Range<u64>, mut each: impl FnMut(u64, &[u8])) {
        let mut text = self.before.clone().into_bytes();
        for serial in self.within_space(range) {
            text.truncate(self.before.len());
            push_padded(serial, self.width, &mut text);
            text.extend_from_slice(self.after.as_bytes());
            each(serial, &text);
        }
    }

    /// Appends every ID of the range to the buffer, each followed by a line feed, and returns how
    /// many there were. The range is cut off at both ends of the space.
    pub fn render_range(&self, range: Range<u64>, buffer: &mut Vec<u8>) -> u64 {
        let range = self.within_space(range);
        let count = range.end.saturating_sub(range.start);
        for serial in range {
            buffer.extend_from_slice(self.before.as_bytes());
            push_padded(serial, self.width, buffer);
            buffer.extend_from_slice(self.after.as_bytes());
            buffer.push(b'\n');
        }
        count
    }

    fn within_space(&self, range: Range<u64>) -> Range<u64> {
        range.start.max(self.start)..range.end.min(SERIAL_MAX)
    }
}

/// Appends a number with zeros in front. By hand, because the general formatter takes several
/// times as long as everything else about an ID.
fn push_padded(number: u64, width: usize, buffer: &mut Vec<u8>) {
    let mut digits = [b'0'; template::WIDTH_MAX];
    let mut first = digits.len();
    let mut rest = number;
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    buffer.extend_from_slice(&digits[first.min(digits.len() - width)..]);
}
