//! Filters that keep numeric IDs of poor quality from being issued: those that are easy to
//! guess, easy to mistype, or that mean something to people.
//!
//! The ten filters are those of [OpenG2P's ID generator], which took them from MOSIP's UIN
//! generator and changed some on the way. Both are here, as the two [`Behaviour`]s, and accept
//! exactly the IDs that the original accepts.
//!
//! Every rule looks at the whole ID, **check digit included**. Both originals append the check
//! digit first and filter afterwards. It follows that whether a payload is accepted depends on
//! the check digit scheme, and that one filter decides both whether an ID may be issued and
//! whether an ID that somebody typed can be one of ours.
//!
//! How to add a rule: name it in [`Rule`], give [`FilterSettings`] its setting and
//! [`FilterSettings::validate`] its bounds, ask the question in `packed`, and call it from
//! `Compiled::check_packed` at the place that its cost and its selectivity deserve.
//!
//! [OpenG2P's ID generator]: https://github.com/OpenG2P/id-generator

mod packed;
mod read;
mod rules;
mod settings;
#[cfg(test)]
mod tests;

use packed::{Packed, Pattern, Word};
use rules::CYCLIC_NUMBERS;

pub use rules::Rule;
pub use settings::{Behaviour, FilterSettings, FilterSpec};

/// The most digits an ID can have.
pub const DIGITS_MAX: usize = 32;

/// Different digits, and so the length of the longest ID without any digit twice.
const TEN: usize = 10;

/// One more than [`DIGITS_MAX`].
const LIMIT_OUT_OF_REACH: u32 = 33;

/// The filters of one ID type, ready to be applied to many IDs.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// `None` where the ID type has no filters.
    compiled: Option<Compiled>,
}

/// Settings with the dialect worked out, so that no rule has to know about dialects.
///
/// A rule whose number is 0 is switched off.
#[derive(Clone, Debug)]
struct Compiled {
    /// Bit d is set where no ID may start with the digit d. Apart from `prefixes` because this
    /// is the cheapest of all tests: it needs no packing.
    first_digits: u16,
    /// Longer beginnings that are not allowed.
    prefixes: Vec<Pattern>,
    /// A digit may not come back within so many positions.
    repeat_distance: u32,
    /// So many even digits may not stand side by side.
    even_run: u32,
    zero_is_even: bool,
    /// So many steps up, or down, may not follow each other: one less than the digits involved.
    sequence_steps: u32,
    /// Whether 9 and 0 are neighbours in a sequence.
    sequence_wraps: bool,
    /// Blocks of so many digits may not occur twice.
    block: u32,
    /// How many first and last digits to compare.
    group: u32,
    /// How many first and last digits to compare backwards.
    reversed_group: u32,
    /// Whether the two group rules also look at IDs so short that the groups overlap.
    groups_may_overlap: bool,
    restricted: Vec<Pattern>,
}

impl Filters {
    /// Compiles what the user wrote.
    ///
    /// Never fails. List entries that [`FilterSettings::validate`] would have reported match
    /// nothing, and limits that it would have reported never apply.
    #[must_use]
    pub fn new(spec: &FilterSpec) -> Self {
        Self { compiled: spec.settings().as_ref().map(Compiled::new) }
    }

    /// No filters: every ID is accepted.
    #[must_use]
    pub const fn none() -> Self {
        Self { compiled: None }
    }

    /// Whether every ID is accepted, so that callers can skip unpacking digits.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.compiled.is_none()
    }

    /// Accepts the ID or names the first rule that it breaks.
    ///
    /// `digits` are the values 0 to 9 (not ASCII) of the whole ID, check digit included.
    /// Anything but 1 to 32 digits is rejected.
    ///
    /// # Errors
    ///
    /// The rule that rejects the ID.
    #[inline]
    pub fn check(&self, digits: &[u8]) -> Result<(), Rule> {
        match &self.compiled {
            None => Ok(()),
            Some(compiled) => compiled.check(digits),
        }
    }

    /// Whether [`check`](Self::check) finds nothing wrong.
    #[inline]
    #[must_use]
    pub fn accepts(&self, digits: &[u8]) -> bool {
        self.check(digits).is_ok()
    }

    /// The shortest length at which any ID at all can pass the comparisons of first and last
    /// digits, so that an ID type that could never issue an ID can be refused when it is made.
    ///
    /// Only `mosip` asks for more than 1: an ID that is no longer than `digits_group_limit` is
    /// its own first and last group.
    #[must_use]
    pub fn length_min(&self) -> usize {
        let Some(compiled) = self.compiled.as_ref().filter(|c| c.groups_may_overlap) else {
            return 1;
        };
        // Read backwards, only a single digit is the same whatever it is.
        let reversed = match compiled.reversed_group {
            1 => 2,
            group => group,
        };
        reversed.max(compiled.group + 1) as usize
    }

    /// The longest length at which any ID at all can pass, as far as that is plain to see: where
    /// no digit may come back, there are only ten of them.
    #[must_use]
    pub fn length_max(&self) -> usize {
        match &self.compiled {
            Some(rules) if rules.block == 1 || rules.repeat_distance as usize >= TEN => TEN,
            _ => DIGITS_MAX,
        }
    }

    /// How many numbers of lists without a fixed length are looked for in each ID. Together with
    /// the number of IDs it tells how long a walk takes.
    pub(crate) fn entries(&self) -> usize {
        self.compiled
            .as_ref()
            .map_or(0, |compiled| compiled.prefixes.len() + compiled.restricted.len())
    }
}

impl Compiled {
    fn new(settings: &FilterSettings) -> Self {
        let mosip = settings.behaviour == Behaviour::Mosip;
        // No ID is that long, so a larger limit means the same; runs are counted up to it.
        let limit = |limit: u32| limit.min(LIMIT_OUT_OF_REACH);
        let (mut first_digits, mut prefixes) = (0, Vec::new());
        for entry in &settings.not_start_with {
            match (entry.as_bytes(), Pattern::parse(entry)) {
                ([digit], Some(_)) => first_digits |= 1 << (digit - b'0'),
                (_, Some(prefix)) if mosip => prefixes.push(prefix),
                _ => {}
            }
        }
        Self {
            first_digits,
            prefixes,
            repeat_distance: if mosip {
                limit(settings.repeating_limit)
            } else {
                limit(settings.repeating_limit).saturating_sub(1)
            },
            even_run: limit(settings.conjugative_even_digits_limit),
            zero_is_even: !mosip,
            sequence_steps: limit(settings.sequence_limit).saturating_sub(1),
            sequence_wraps: mosip,
            block: limit(settings.repeating_block_limit),
            group: limit(settings.digits_group_limit),
            reversed_group: limit(settings.reverse_digits_group_limit),
            groups_may_overlap: mosip,
            restricted: settings
                .restricted_numbers
                .iter()
                .filter_map(|number| Pattern::parse(number))
                .collect(),
        }
    }

    #[inline]
    fn check(&self, digits: &[u8]) -> Result<(), Rule> {
        debug_assert!(
            digits.iter().all(|&digit| digit <= 9),
            "digits are values from 0 to 9, not characters"
        );
        let Some(&first) = digits.first() else {
            return Err(Rule::Length);
        };
        if (self.first_digits >> (first & 15)) & 1 == 1 {
            return Err(Rule::NotStartWith);
        }
        match digits.len() {
            ..=16 => self.check_packed(Packed::<u64>::new(digits)),
            17..=DIGITS_MAX => self.check_packed(Packed::<u128>::new(digits)),
            _ => Err(Rule::Length),
        }
    }

    /// Asks the rules that see all digits, the cheapest and most selective first.
    ///
    /// Of random IDs with 12 digits and the default limits, `openg2p` would turn down 69 % for a
    /// repeated digit, 58 % for even digits, 14 % for a sequence and 35 % for a repeated block,
    /// which comes last of these because it takes a loop. The other rules hardly ever apply.
    /// Evaluating the first three without branches in between was measured and is slower.
    #[inline]
    fn check_packed<W: Word>(&self, id: Packed<W>) -> Result<(), Rule> {
        if id.repeats_digit_within(self.repeat_distance) {
            return Err(Rule::RepeatingDigit);
        }
        if self.even_run > 0 && id.has_even_run(self.even_run, self.zero_is_even) {
            return Err(Rule::ConjugativeEvenDigits);
        }
        if self.sequence_steps > 0 && id.has_sequence(self.sequence_steps, self.sequence_wraps) {
            return Err(Rule::Sequence);
        }
        if self.block > 0 && id.repeats_block(self.block) {
            return Err(Rule::RepeatingBlock);
        }
        if self.group_matches(id, self.group, Packed::first_equals_last) {
            return Err(Rule::FirstEqualsLast);
        }
        if self.group_matches(id, self.reversed_group, Packed::first_equals_reversed_last) {
            return Err(Rule::FirstEqualsReversedLast);
        }
        if self.prefixes.iter().any(|&prefix| id.starts_with(prefix)) {
            return Err(Rule::NotStartWith);
        }
        if self.restricted.iter().any(|&number| id.contains(number)) {
            return Err(Rule::RestrictedNumber);
        }
        if CYCLIC_NUMBERS.iter().any(|&number| id.contains(number)) {
            return Err(Rule::CyclicNumber);
        }
        Ok(())
    }

    /// Applies one of the two group rules where the ID has the length for it.
    ///
    /// `openg2p` leaves IDs alone whose groups would overlap. `mosip` compares even then, and
    /// fails with an exception where the ID is shorter than a group; as it never issues such an
    /// ID, it is rejected here.
    #[inline]
    fn group_matches<W: Word>(
        &self,
        id: Packed<W>,
        group: u32,
        equal: impl Fn(Packed<W>, u32) -> bool,
    ) -> bool {
        if group == 0 {
            return false;
        }
        if self.groups_may_overlap {
            id.len() < group || equal(id, group)
        } else {
            id.len() / 2 >= group && equal(id, group)
        }
    }
}
