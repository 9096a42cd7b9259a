//! What a user writes under `filters:`, and how it is checked before it is compiled.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::DIGITS_MAX;
use super::packed::Pattern;
use crate::spec::read::Errors;

/// The longest run of digits that count up or down without passing from 9 to 0.
const SEQUENCE_LIMIT_MAX: u32 = 10;

/// How many entries a list may hold. Each one is looked for in each accepted ID, so a longer list
/// would be felt.
const ENTRIES_MAX: usize = 1_000;

/// Which of the two rule dialects the limits of [`FilterSettings`] are read in.
///
/// The dialects share their settings but read most of them differently:
///
/// | setting | `openg2p` | `mosip` |
/// | --- | --- | --- |
/// | `sequence_limit` | 0 and 9 are not neighbours | 890 and 901 are sequences too |
/// | `repeating_limit: n` | equal digits fewer than n apart | n apart as well (n = 2: `1x1`) |
/// | `conjugative_even_digits_limit` | 0 is even | 0 is not even |
/// | both group limits `n` | only for IDs of at least 2n digits | at every length |
/// | `not_start_with` | single digits | prefixes of any length |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behaviour {
    /// As the ID generator of `OpenG2P` does it.
    #[default]
    Openg2p,
    /// As the UIN generator of MOSIP does it.
    Mosip,
}

/// The settings of the single filters, named as in `OpenG2P`'s configuration.
///
/// A setting that is left out has `OpenG2P`'s default. The filter for cyclic numbers has no
/// setting: it is part of both dialects and always on.
///
/// A limit of 0 switches its rule off. `OpenG2P` itself reads 0 that way for the repeating limit
/// and the group limits; its sequence and block rules then reject every ID, and its even rule
/// every ID with an even digit (which 1 does as well), so nothing useful is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterSettings {
    /// So many digits in a row may not count up or down. 3 rejects `345` and `543`.
    pub sequence_limit: u32,
    /// How soon a digit may come back; see [`Behaviour`] for the two ways to count.
    pub repeating_limit: u32,
    /// So many digits in a row may not occur again further on. 2 rejects `48xx48`.
    pub repeating_block_limit: u32,
    /// So many even digits may not stand side by side. 3 rejects `482`.
    pub conjugative_even_digits_limit: u32,
    /// The first so many digits may not be the last so many.
    pub digits_group_limit: u32,
    /// The first so many digits may not be the last so many read backwards.
    pub reverse_digits_group_limit: u32,
    /// What no ID may start with.
    pub not_start_with: Vec<String>,
    /// What may not occur anywhere in an ID.
    pub restricted_numbers: Vec<String>,
    /// The dialect. Left out when it is the default, so that what is written back is a
    /// configuration block that `OpenG2P` understands.
    #[serde(skip_serializing_if = "Behaviour::is_default")]
    pub behaviour: Behaviour,
}

impl Behaviour {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde's skip_serializing_if passes a reference"
    )]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for FilterSettings {
    fn default() -> Self {
        Self {
            sequence_limit: 3,
            repeating_limit: 2,
            repeating_block_limit: 2,
            conjugative_even_digits_limit: 3,
            digits_group_limit: 5,
            reverse_digits_group_limit: 5,
            not_start_with: vec!["0".to_owned(), "1".to_owned()],
            restricted_numbers: Vec::new(),
            behaviour: Behaviour::default(),
        }
    }
}

impl FilterSettings {
    /// MOSIP's dialect with the same limits, which are also MOSIP's own.
    ///
    /// MOSIP's sample configuration restricts the numbers 786 and 666 on top. They are a choice
    /// of each deployment and so are not part of this.
    #[must_use]
    pub fn mosip() -> Self {
        Self { behaviour: Behaviour::Mosip, ..Self::default() }
    }

    /// Adds to `errors` each setting that cannot work, as field name and message.
    pub fn validate(&self, errors: &mut Vec<(String, String)>) {
        self.validate_limits(errors);
        self.validate_not_start_with(errors);
        self.validate_restricted_numbers(errors);
    }

    fn validate_limits(&self, errors: &mut Vec<(String, String)>) {
        match self.sequence_limit {
            1 => errors.push((
                "sequence_limit".to_owned(),
                "1 rejects every ID, because each digit alone is a sequence of one; \
                 use 2 to 10, or 0 to switch the rule off"
                    .to_owned(),
            )),
            limit if limit > SEQUENCE_LIMIT_MAX => errors.push((
                "sequence_limit".to_owned(),
                format!(
                    "{limit} can never be reached, because ten digits is the longest sequence; \
                     use 2 to 10, or 0 to switch the rule off"
                ),
            )),
            _ => {}
        }
        let limits = [
            ("repeating_limit", self.repeating_limit),
            ("repeating_block_limit", self.repeating_block_limit),
            ("conjugative_even_digits_limit", self.conjugative_even_digits_limit),
            ("digits_group_limit", self.digits_group_limit),
            ("reverse_digits_group_limit", self.reverse_digits_group_limit),
        ];
        for (field, limit) in limits {
            if usize::try_from(limit).is_ok_and(|limit| limit <= DIGITS_MAX) {
                continue;
            }
            errors.push((
                field.to_owned(),
                format!(
                    "{limit} is more than the {DIGITS_MAX} digits that an ID can have; \
                     use 1 to {DIGITS_MAX}, or 0 to switch the rule off"
                ),
            ));
        }
    }

    fn validate_not_start_with(&self, errors: &mut Vec<(String, String)>) {
        let mut report = |message: String| errors.push(("not_start_with".to_owned(), message));
        for entry in &self.not_start_with {
            match (Pattern::parse(entry), self.behaviour) {
                (None, Behaviour::Openg2p) => {
                    report(format!("\"{entry}\" is not a digit; use single digits such as \"0\""));
                }
                (None, Behaviour::Mosip) => report(format!(
                    "\"{entry}\" is not a number of 1 to {DIGITS_MAX} digits; \
                     use digits such as \"0\" or \"19\""
                )),
                (Some(pattern), Behaviour::Openg2p) if pattern.len() > 1 => report(format!(
                    "\"{entry}\" has more than one digit and would never match, because \
                     OpenG2P compares the first digit only; use single digits, \
                     or set behaviour: mosip to compare longer prefixes"
                )),
                (Some(_), _) => {}
            }
        }
        if self.not_start_with.len() > ENTRIES_MAX {
            report(format!(
                "{} entries are listed; use at most {ENTRIES_MAX}",
                self.not_start_with.len()
            ));
        }
        if has_every_digit(&self.not_start_with) {
            report("all ten digits are listed, so no ID could be issued; leave one out".to_owned());
        }
    }

    fn validate_restricted_numbers(&self, errors: &mut Vec<(String, String)>) {
        let mut report = |message: String| errors.push(("restricted_numbers".to_owned(), message));
        for entry in &self.restricted_numbers {
            if entry.is_empty() {
                report("an empty entry matches nothing; remove it".to_owned());
            } else if Pattern::parse(entry).is_none() {
                report(format!(
                    "\"{entry}\" is not a number of 1 to {DIGITS_MAX} digits; \
                     use digits only, such as \"786\""
                ));
            }
        }
        if self.restricted_numbers.len() > ENTRIES_MAX {
            report(format!(
                "{} numbers are listed; use at most {ENTRIES_MAX}",
                self.restricted_numbers.len()
            ));
        }
        if has_every_digit(&self.restricted_numbers) {
            report("all ten digits are listed, so no ID could be issued; leave one out".to_owned());
        }
    }
}

/// Whether a list rules out each of the ten digits.
fn has_every_digit(list: &[String]) -> bool {
    (b'0'..=b'9').all(|digit| list.iter().any(|entry| entry.as_bytes() == [digit]))
}

/// What stands under `filters:` in the description of an ID type: the name of a profile, or a
/// mapping with single settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FilterSpec {
    /// `none`: every ID is good enough.
    #[default]
    None,
    /// `openg2p`: what `OpenG2P`'s ID generator does with its default settings.
    Openg2p,
    /// `mosip`: what MOSIP's UIN generator does with the same limits.
    Mosip,
    /// A mapping with single settings.
    Settings(FilterSettings),
}

impl FilterSpec {
    /// The settings that the profile name or the mapping stands for, or `None` without filters.
    #[must_use]
    pub fn settings(&self) -> Option<FilterSettings> {
        match self {
            Self::None => None,
            Self::Openg2p => Some(FilterSettings::default()),
            Self::Mosip => Some(FilterSettings::mosip()),
            Self::Settings(settings) => Some(settings.clone()),
        }
    }
}

impl Serialize for FilterSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Openg2p => serializer.serialize_str("openg2p"),
            Self::Mosip => serializer.serialize_str("mosip"),
            Self::Settings(settings) => settings.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FilterSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut errors = Errors::default();
        let spec = Self::read("filters", Value::deserialize(deserializer)?, &mut errors);
        errors.into_result().map_err(de::Error::custom)?;
        Ok(spec.expect("what cannot be read is an error"))
    }
}
