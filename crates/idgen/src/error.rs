//! Why a text is not an ID, why a serial has none, and why an ID type is not valid.

use std::fmt;

use crate::filters::Rule;

/// Why a text is not an ID of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Too many or too few symbols, not counting separators.
    #[error("it has {found} symbols, not {expected}")]
    Length {
        /// Symbols that an ID of the type has, in words where that varies.
        expected: String,
        /// Symbols that were found.
        found: usize,
    },
    /// A character that cannot stand where it stands.
    #[error("{character:?} at position {position} does not belong there; expected {expected}")]
    Symbol {
        /// The character.
        character: char,
        /// Where it stands in the text as given, counted from 1.
        position: usize,
        /// What could stand there.
        expected: String,
    },
    /// The check symbols do not fit the rest.
    #[error("the check symbol does not fit: there is a typing error, or it is not one of ours")]
    Check,
    /// A filter would never have let this ID out.
    #[error("no ID like this is ever issued: {0}")]
    Filter(Rule),
    /// Well formed, but no serial that can be drawn leads to it.
    #[error("no serial number leads to it")]
    OutOfRange,
}

impl ParseError {
    /// A stable name of the rule that failed.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "length",
            Self::Symbol { .. } => "symbol",
            Self::Check => "check",
            Self::Filter(_) => "filter",
            Self::OutOfRange => "out_of_range",
        }
    }
}

/// Why a serial has no ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A filter rejects the candidate; the serial is skipped for ever.
    #[error("rejected by a filter: {0}")]
    Rejected(Rule),
    /// The serial is outside the type's space.
    #[error("the serial is outside the space of the ID type")]
    OutOfRange,
    /// The template cannot tell this year from one in another century or era.
    #[error("the template can write the years {from} to {to} only")]
    Year {
        /// First year that it can write.
        from: i16,
        /// Last year that it can write.
        to: i16,
    },
}

/// One thing that is wrong with an ID type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, such as `random.length`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Everything that is wrong with an ID type. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecErrors(pub Vec<FieldError>);

impl fmt::Display for SpecErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}
