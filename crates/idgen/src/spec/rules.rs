//! What makes an ID type valid.
//!
//! The rules look at drafts, in which a setting is missing where it could not be read, so that a
//! mistake in one field does not hide the mistakes in the others.

use super::read::{Errors, shown_text};
use super::{Ledger, RandomSpec, SERIAL_MAX, SequenceSpec};
use crate::alphabet::Alphabet;
use crate::check::Check;
use crate::ff1;
use crate::filters::{FilterSpec, Filters};
use crate::sequence::Reset;
use crate::template::{self, DatePart, Part};

const NAME_CHARS_MAX: usize = 64;

pub(super) fn check_name(field: &str, name: &str, errors: &mut Errors) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts_well || !name.chars().all(plain) || name.len() > NAME_CHARS_MAX {
        errors.add(
            field,
            format!(
                "{} is not a name; use 1 to {NAME_CHARS_MAX} ASCII letters, digits, '_', '-' and \
                 '.', starting with a letter or digit",
                shown_text(name)
            ),
        );
    }
}

/// A sequence type as far as it is known.
pub(super) struct SequenceDraft {
    pub(super) start: Option<u64>,
    pub(super) template: Option<String>,
    pub(super) reset: Option<Reset>,
    pub(super) gapless: Option<bool>,
}

impl From<&SequenceSpec> for SequenceDraft {
    fn from(spec: &SequenceSpec) -> Self {
        Self {
            start: Some(spec.start),
            template: Some(spec.template.clone()),
            reset: Some(spec.reset),
            gapless: Some(spec.gapless),
        }
    }
}

impl SequenceDraft {
    pub(super) fn check(&self, errors: &mut Errors) {
        if let Some(start) = self.start.filter(|&start| start >= SERIAL_MAX) {
            errors.add(
                "sequence.start",
                format!("{start} is too large; it must be below {SERIAL_MAX}"),
            );
        }
        let Some(template) = &self.template else { return };
        match (template::parse(template), self.reset) {
            (Err(error), _) => errors.add("sequence.template", error.to_string()),
            (Ok(parts), Some(reset)) => check_reset(template, &parts, reset, errors),
            (Ok(_), None) => {}
        }
    }

    /// The settings, if all are known.
    pub(super) fn finish(self) -> Option<SequenceSpec> {
        Some(SequenceSpec {
            start: self.start?,
            template: self.template?,
            reset: self.reset?,
            gapless: self.gapless?,
        })
    }
}

/// A counter that starts again must show in the ID when it did.
fn check_reset(template: &str, parts: &[Part], reset: Reset, errors: &mut Errors) {
    let has = |part| parts.contains(&Part::Date(part));
    let year = has(DatePart::Year) || has(DatePart::YearOfCentury);
    let (month, day) = (has(DatePart::Month), has(DatePart::Day));
    let (enough, needed) = match reset {
        Reset::Never => (true, ""),
        Reset::Yearly => (year, "{yyyy} or {yy}"),
        Reset::Monthly => (year && month, "{yyyy} or {yy}, and {mm}"),
        Reset::Daily => (year && month && day, "{yyyy} or {yy}, {mm} and {dd}"),
    };
    if !enough {
        errors.add(
            "sequence.template",
            format!(
                "{template:?} would give one ID for two serials, because the number starts again; \
                 with this reset it must contain {needed}"
            ),
        );
    }
}

/// A random type as far as it is known.
pub(super) struct RandomDraft {
    pub(super) alphabet: Option<Alphabet>,
    pub(super) length: Option<u64>,
    pub(super) check: Option<Check>,
    pub(super) filters: Option<FilterSpec>,
    /// Missing where it is not known as well as where there are no groups.
    pub(super) group: Option<u64>,
    pub(super) allow_dense: Option<bool>,
    pub(super) ledger: Option<Ledger>,
}

impl From<&RandomSpec> for RandomDraft {
    fn from(spec: &RandomSpec) -> Self {
        Self {
            alphabet: Some(spec.alphabet.clone()),
            length: Some(spec.length.into()),
            check: Some(spec.check),
            filters: Some(spec.filters.clone()),
            group: spec.group.map(u64::from),
            allow_dense: Some(spec.allow_dense),
            ledger: Some(spec.ledger),
        }
    }
}

impl RandomDraft {
    pub(super) fn check(&self, errors: &mut Errors) {
        self.check_length(errors);
        if let (Some(check), Some(alphabet)) = (self.check, &self.alphabet)
            && let Some(message) = check.refusal(alphabet)
        {
            errors.add("random.check", message);
        }
        let length = self.length.unwrap_or(u64::MAX);
        if self.group.is_some_and(|group| group == 0 || group >= length) {
            errors.add(
                "random.group",
                "a group must have at least one symbol and fewer than the whole ID; \
                 leave it out for no groups"
                    .to_owned(),
            );
        }
        self.check_filters(errors);
    }

    /// The settings, if all are known and small enough to be kept.
    pub(super) fn finish(self) -> Option<RandomSpec> {
        Some(RandomSpec {
            alphabet: self.alphabet?,
            length: u8::try_from(self.length?).ok()?,
            check: self.check?,
            filters: self.filters?,
            group: self.group.map(u8::try_from).transpose().ok()?,
            allow_dense: self.allow_dense?,
            ledger: self.ledger?,
        })
    }

    fn check_filters(&self, errors: &mut Errors) {
        let Some(filters) = &self.filters else { return };
        if let Some(alphabet) = self.alphabet.as_ref().filter(|alphabet| !alphabet.is_digits())
            && *filters != FilterSpec::None
        {
            errors.add(
                "random.filters",
                format!(
                    "filters judge digits, and the alphabet is {alphabet}; use none, or the \
                     alphabet digits"
                ),
            );
        }
        if let FilterSpec::Settings(settings) = filters {
            let mut found = Vec::new();
            settings.validate(&mut found);
            for (field, message) in found {
                errors.add(&format!("random.filters.{field}"), message);
            }
        }
    }

    fn check_length(&self, errors: &mut Errors) {
        let Some(length) = self.length else { return };
        let check = self.check.unwrap_or_default();
        let (min, max) = (ff1::LEN_MIN + check.symbols(), ff1::LEN_MAX);
        let Some(length) = usize::try_from(length).ok().filter(|l| (min..=max).contains(l)) else {
            errors.add(
                "random.length",
                format!(
                    "{length} is outside the limits; with the check symbol {check} an ID has {min} \
                     to {max} symbols"
                ),
            );
            return;
        };
        if let Some(filters) = &self.filters {
            check_length_for_filters(length, &Filters::new(filters), errors);
        }
        let Some(alphabet) = &self.alphabet else { return };
        let radix = u128::from(alphabet.radix());
        let fits = |length: usize| {
            u32::try_from(length - check.symbols()).is_ok_and(|p| radix.checked_pow(p).is_some())
        };
        if !fits(length) {
            let most = (min..length).rev().find(|&length| fits(length)).unwrap_or(min);
            errors.add(
                "random.length",
                format!(
                    "{length} symbols of {radix} are more than 2^128 IDs; use at most {most} symbols"
                ),
            );
        }
    }
}

/// Some filters leave nothing over at some lengths.
fn check_length_for_filters(length: usize, filters: &Filters, errors: &mut Errors) {
    let (min, max) = (filters.length_min(), filters.length_max());
    let right = if length < min {
        format!("use {min} or more")
    } else if length > max {
        format!("use at most {max}")
    } else {
        return;
    };
    errors.add("random.length", format!("the filters reject every ID of {length} digits; {right}"));
}
