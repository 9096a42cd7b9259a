//! Digits packed four bits each into one machine word, so that a rule can look at all of them in
//! a handful of instructions instead of one by one.
//!
//! The last digit of the ID sits in the lowest nibble. A set of positions is written as *marks*:
//! a word in which only the lowest bit of a nibble may be set.

use std::ops::{BitAnd, BitOr, BitXor, Not, Shl, Shr};

/// A word that holds packed digits: `u64` for up to 16 of them, `u128` for up to 32.
///
/// The narrow word exists because almost all IDs fit into it and it is twice as fast.
pub(super) trait Word:
    Copy
    + Eq
    + From<u8>
    + From<u16>
    + TryFrom<u128>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// How many digits fit.
    const CAPACITY: u32;
    /// A mark in every position.
    const MARKS: Self;
    /// The word without any digit or mark.
    const ZERO: Self;

    /// Adds one to every nibble. The digits stay below 16, so nothing is carried over.
    fn increment_each(self) -> Self;
    /// The nibbles in the opposite order.
    fn reverse_nibbles(self) -> Self;
}

/// Implements [`Word`] for an unsigned integer of any width.
macro_rules! impl_word {
    ($word:ty) => {
        impl Word for $word {
            const CAPACITY: u32 = <$word>::BITS / 4;
            const MARKS: Self = <$word>::MAX / 15;
            const ZERO: Self = 0;

            #[inline]
            fn increment_each(self) -> Self {
                self.wrapping_add(Self::MARKS)
            }

            #[inline]
            fn reverse_nibbles(self) -> Self {
                let low_nibbles = <$word>::MAX / 17;
                let bytes = self.swap_bytes();
                ((bytes & low_nibbles) << 4) | ((bytes >> 4) & low_nibbles)
            }
        }
    };
}

impl_word!(u64);
impl_word!(u128);

/// A short number to look for, packed like an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    digits: u128,
    len: u32,
}

impl Pattern {
    /// A pattern of `len` digits, given as nibbles. `len` is needed for the leading zeros.
    pub(super) const fn new(digits: u128, len: u32) -> Self {
        Self { digits, len }
    }

    /// Packs decimal text. `None` for what no ID can contain: nothing, more than 32 characters,
    /// or anything but the digits 0 to 9.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > super::DIGITS_MAX {
            return None;
        }
        let digits = text.bytes().try_fold(0_u128, |packed, byte| {
            byte.is_ascii_digit().then(|| (packed << 4) | u128::from(byte - b'0'))
        })?;
        let len = u32::try_from(text.len()).ok()?;
        Some(Self { digits, len })
    }

    /// The pattern as wide as an ID. One that is too wide for it becomes a word that no digits
    /// make up, and so is never found.
    #[inline]
    fn to_word<W: Word>(self) -> W {
        W::try_from(self.digits).unwrap_or(!W::ZERO)
    }

    /// How many digits the pattern has.
    pub(super) const fn len(self) -> u32 {
        self.len
    }
}

/// An ID, packed.
#[derive(Clone, Copy)]
pub(super) struct Packed<W> {
    word: W,
    len: u32,
}

impl<W: Word> Packed<W> {
    /// Packs digit values (not ASCII), at most [`Word::CAPACITY`] of them.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "there are at most 32 digits, and the low half of a quad is what is wanted"
    )]
    pub(super) fn new(digits: &[u8]) -> Self {
        // Four digits at a time: a chain of twelve dependent shifts would cost more than most
        // of the rules.
        let (quads, rest) = digits.as_chunks::<4>();
        let mut word = W::ZERO;
        for quad in quads {
            let spread = u32::from_be_bytes(*quad);
            let paired = (spread | (spread >> 4)) & 0x00FF_00FF;
            word = (word << 16) | W::from((paired | (paired >> 8)) as u16);
        }
        for &digit in rest {
            word = (word << 4) | W::from(digit);
        }
        Self { word, len: digits.len() as u32 }
    }

    /// How many digits the ID has.
    #[inline]
    pub(super) const fn len(self) -> u32 {
        self.len
    }

    /// Marks the right one of every two equal digits that stand `distance` apart.
    #[inline]
    fn equal_at(self, distance: u32) -> W {
        same_nibbles(self.word, self.word >> (4 * distance)) & lowest_marks(self.len - distance)
    }

    /// Whether a digit comes back at most `distance` positions later.
    #[inline]
    pub(super) fn repeats_digit_within(self, distance: u32) -> bool {
        (1..=distance.min(self.len - 1)).any(|d| self.equal_at(d) != W::ZERO)
    }

    /// Whether `block` digits in a row occur again, the second time after the end of the first.
    ///
    /// Two equal blocks are `block` neighbouring pairs of equal digits, all at one distance.
    #[inline]
    pub(super) fn repeats_block(self, block: u32) -> bool {
        let distance_max = self.len.saturating_sub(block);
        (block..=distance_max).any(|d| has_run(self.equal_at(d), block))
    }

    /// Whether `count` even digits stand side by side. `zero_is_even` says if 0 is one of them.
    #[inline]
    pub(super) fn has_even_run(self, count: u32, zero_is_even: bool) -> bool {
        let mut even = !self.word & lowest_marks(self.len);
        if !zero_is_even {
            even = even & !same_nibbles(self.word, W::ZERO);
        }
        has_run(even, count)
    }

    /// Whether `steps` steps in a row lead to the next digit, or `steps` in a row to the one
    /// before. `wraps` lets 9 and 0 be neighbours.
    #[inline]
    pub(super) fn has_sequence(self, steps: u32, wraps: bool) -> bool {
        let mut successors = self.word.increment_each();
        if wraps {
            // Ten is the only value from 1 to 10 with both of these bits.
            let tens = (successors >> 3) & (successors >> 1) & W::MARKS;
            successors = successors ^ (tens << 3) ^ (tens << 1);
        }
        let pairs = lowest_marks(self.len - 1);
        let up = same_nibbles(self.word, successors >> 4) & pairs;
        let down = same_nibbles(self.word >> 4, successors) & pairs;
        has_run(up, steps) | has_run(down, steps)
    }

    /// Whether the first `count` digits are also the last `count`, which may overlap.
    #[inline]
    pub(super) fn first_equals_last(self, count: u32) -> bool {
        self.first(count) == self.word & lowest_nibbles(count)
    }

    /// Whether the first `count` digits are the last `count` read backwards.
    #[inline]
    pub(super) fn first_equals_reversed_last(self, count: u32) -> bool {
        // Reversing puts the last digit first, above the nibbles that the ID leaves empty.
        self.first(count) == self.word.reverse_nibbles() >> (4 * (W::CAPACITY - count))
    }

    /// Whether the ID begins with `prefix`.
    #[inline]
    pub(super) fn starts_with(self, prefix: Pattern) -> bool {
        prefix.len <= self.len && self.first(prefix.len) == prefix.to_word()
    }

    /// Whether `pattern` occurs anywhere in the ID.
    #[inline]
    pub(super) fn contains(self, pattern: Pattern) -> bool {
        if pattern.len > self.len {
            return false;
        }
        let wanted = pattern.to_word();
        let window = lowest_nibbles::<W>(pattern.len);
        (0..=self.len - pattern.len).any(|skip| (self.word >> (4 * skip)) & window == wanted)
    }

    /// The first `count` digits (at least one) as a number of their own.
    #[inline]
    fn first(self, count: u32) -> W {
        self.word >> (4 * (self.len - count))
    }
}

/// Marks the positions in which both words hold the same nibble.
#[inline]
fn same_nibbles<W: Word>(left: W, right: W) -> W {
    let difference = left ^ right;
    let halves = difference | (difference >> 2);
    !(halves | (halves >> 1)) & W::MARKS
}

/// Whether at least `count` neighbouring positions are marked.
#[inline]
fn has_run<W: Word>(marks: W, count: u32) -> bool {
    let mut starts = marks;
    for _ in 1..count {
        starts = starts & (starts >> 4);
    }
    starts != W::ZERO
}

/// Marks the `count` lowest positions. `count` may be 0.
#[inline]
fn lowest_marks<W: Word>(count: u32) -> W {
    lowest_nibbles::<W>(count) & W::MARKS
}

/// All bits of the `count` lowest positions. `count` may be 0.
#[inline]
fn lowest_nibbles<W: Word>(count: u32) -> W {
    if count == 0 {
        return W::ZERO;
    }
    !W::ZERO >> (4 * (W::CAPACITY - count))
}
