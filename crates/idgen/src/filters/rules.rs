//! The names of the rules and the numbers they know by heart.

use std::fmt;

use super::packed::Pattern;

/// The filter that turned an ID down.
///
/// There is one variant for each of the ten filters of `OpenG2P`. An ID often breaks several of
/// them; the one reported is the first in the order in which [`Filters::check`] asks.
///
/// [`Filters::check`]: super::Filters::check
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The number of digits is wrong. The ID type knows its length and compares it; here the rule
    /// only guards the 1 to 32 digits that the other rules can look at.
    Length,
    /// The ID begins with a forbidden digit (or, for `mosip`, a forbidden prefix).
    NotStartWith,
    /// Neighbouring digits count up or down.
    Sequence,
    /// A digit comes back too soon.
    RepeatingDigit,
    /// A block of digits occurs twice without overlapping itself.
    RepeatingBlock,
    /// Too many even digits stand side by side.
    ConjugativeEvenDigits,
    /// The first digits are also the last digits.
    FirstEqualsLast,
    /// The first digits are the last digits read backwards.
    FirstEqualsReversedLast,
    /// A number from the list of restricted numbers occurs in the ID.
    RestrictedNumber,
    /// A cyclic number, such as the period of 1/7, occurs in the ID.
    CyclicNumber,
}

impl Rule {
    /// Every rule, in the order of `OpenG2P`'s specification. For metrics and documentation.
    pub const ALL: [Self; 10] = [
        Self::Length,
        Self::NotStartWith,
        Self::Sequence,
        Self::RepeatingDigit,
        Self::RepeatingBlock,
        Self::ConjugativeEvenDigits,
        Self::FirstEqualsLast,
        Self::FirstEqualsReversedLast,
        Self::RestrictedNumber,
        Self::CyclicNumber,
    ];

    /// A name that programs may rely on. It never changes once released.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::NotStartWith => "not_start_with",
            Self::Sequence => "sequence",
            Self::RepeatingDigit => "repeating_digit",
            Self::RepeatingBlock => "repeating_block",
            Self::ConjugativeEvenDigits => "conjugative_even_digits",
            Self::FirstEqualsLast => "first_equals_last",
            Self::FirstEqualsReversedLast => "first_equals_reversed_last",
            Self::RestrictedNumber => "restricted_number",
            Self::CyclicNumber => "cyclic_number",
        }
    }
}

/// Says in words what is wrong with the ID, for people.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the number of digits is not the one expected",
            Self::NotStartWith => "the first digits are ones that no ID may start with",
            Self::Sequence => "too many neighbouring digits count up or down",
            Self::RepeatingDigit => "the same digit comes back too soon",
            Self::RepeatingBlock => "a block of digits occurs more than once",
            Self::ConjugativeEvenDigits => "too many even digits stand side by side",
            Self::FirstEqualsLast => "the first digits are repeated at the end",
            Self::FirstEqualsReversedLast => "the first digits are repeated backwards at the end",
            Self::RestrictedNumber => "a restricted number occurs in the ID",
            Self::CyclicNumber => "a cyclic number occurs in the ID",
        })
    }
}

/// The cyclic numbers that fit into 32 digits: the periods of 1/7, 1/17, 1/19, 1/23 and 1/29.
///
/// `OpenG2P` and MOSIP also list those of 1/47, 1/59, 1/61 and 1/97, but these have 46, 58, 60 and
/// 96 digits, so no ID can contain them. Digits are written as nibbles, hence the hexadecimal.
pub(super) const CYCLIC_NUMBERS: [Pattern; 5] = [
    Pattern::new(0x14_2857, 6),
    Pattern::new(0x0588_2352_9411_7647, 16),
    Pattern::new(0x05_2631_5789_4736_8421, 18),
    Pattern::new(0x04_3478_2608_6956_5217_3913, 22),
    Pattern::new(0x0344_8275_8620_6896_5517_2413_7931, 28),
];
