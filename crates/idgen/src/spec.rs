//! The specification of an ID type, as it is written in YAML or JSON.

use serde::{Deserialize, Serialize};

use crate::alphabet::Alphabet;
use crate::check::Check;
use crate::error::{FieldError, SpecErrors};
use crate::ff1;
use crate::filters::{FilterSpec, Filters};
use crate::sequence::Reset;
use crate::snowflake::SnowflakeSpec;
use crate::template::{self, DatePart, Part};

/// Serials are below this: databases count in signed 64-bit numbers.
pub const SERIAL_MAX: u64 = i64::MAX as u64;

/// The tenant where nobody names one.
pub const DEFAULT_TENANT: &str = "default";

const NAME_CHARS_MAX: usize = 64;

/// What a tenant numbers, and how the numbers look.
///
/// A value of this type is valid: reading one checks it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct IdType {
    tenant: String,
    name: String,
    kind: Kind,
}

/// The three kinds of ID type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The serial in a template.
    Sequence(SequenceSpec),
    /// The serial through a keyed permutation.
    Random(RandomSpec),
    /// Time, node and counter.
    Snowflake(SnowflakeSpec),
}

/// Settings of a sequence type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SequenceSpec {
    /// First number.
    pub start: u64,
    /// Text around the number.
    pub template: String,
    /// When the number starts again.
    pub reset: Reset,
    /// Whether a number may only be taken in the transaction that uses it.
    pub gapless: bool,
}

impl Default for SequenceSpec {
    fn default() -> Self {
        Self { start: 1, template: "{seq}".to_owned(), reset: Reset::Never, gapless: false }
    }
}

/// Settings of a random type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomSpec {
    /// The symbols.
    pub alphabet: Alphabet,
    /// Symbols of an ID, check symbols included, separators not.
    pub length: u8,
    /// How typing errors are caught.
    #[serde(default)]
    pub check: Check,
    /// Which candidates are never issued.
    #[serde(default)]
    pub filters: FilterSpec,
    /// A hyphen after every so many symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Whether more than 1 in 10,000 of the possible codes may be real ones.
    #[serde(default)]
    pub allow_dense: bool,
}

/// The form in files: the kind is the one of three fields that is there.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "ID type")]
struct Written {
    #[serde(default = "default_tenant")]
    tenant: String,
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<SequenceSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    random: Option<RandomSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snowflake: Option<SnowflakeSpec>,
}

fn default_tenant() -> String {
    DEFAULT_TENANT.to_owned()
}

impl IdType {
    /// An ID type, if everything about it is right.
    pub fn new(tenant: &str, name: &str, kind: Kind) -> Result<Self, SpecErrors> {
        let mut errors = Errors::default();
        errors.check_name("tenant", tenant);
        errors.check_name("name", name);
        match &kind {
            Kind::Sequence(spec) => spec.check(&mut errors),
            Kind::Random(spec) => spec.check_into(&mut errors),
            Kind::Snowflake(_) => {}
        }
        errors.into_result()?;
        Ok(Self { tenant: tenant.to_owned(), name: name.to_owned(), kind })
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Its name within the tenant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind with the settings.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
}

impl TryFrom<Written> for IdType {
    type Error = SpecErrors;

    fn try_from(written: Written) -> Result<Self, SpecErrors> {
        let kinds = [
            written.sequence.map(Kind::Sequence),
            written.random.map(Kind::Random),
            written.snowflake.map(Kind::Snowflake),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(kind), None) => Self::new(&written.tenant, &written.name, kind),
            (first, _) => {
                let mut errors = Errors::default();
                errors.check_name("tenant", &written.tenant);
                errors.check_name("name", &written.name);
                let found = if first.is_some() { "more than one" } else { "none" };
                errors.add(
                    "sequence, random or snowflake",
                    format!("there must be exactly one of these fields, found {found}"),
                );
                Err(SpecErrors(errors.0))
            }
        }
    }
}

impl From<IdType> for Written {
    fn from(id_type: IdType) -> Self {
        let mut written = Self {
            tenant: id_type.tenant,
            name: id_type.name,
            sequence: None,
            random: None,
            snowflake: None,
        };
        match id_type.kind {
            Kind::Sequence(spec) => written.sequence = Some(spec),
            Kind::Random(spec) => written.random = Some(spec),
            Kind::Snowflake(spec) => written.snowflake = Some(spec),
        }
        written
    }
}

/// Collects what is wrong, so that one attempt shows all of it.
#[derive(Default)]
struct Errors(Vec<FieldError>);

impl Errors {
    fn add(&mut self, field: &str, message: String) {
        self.0.push(FieldError { field: field.to_owned(), message });
    }

    fn check_name(&mut self, field: &str, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !starts_well || !name.chars().all(plain) || name.len() > NAME_CHARS_MAX {
            self.add(
                field,
                format!(
                    "{name:?} is not a name; use 1 to {NAME_CHARS_MAX} ASCII letters, digits, \
                     '_', '-' and '.', starting with a letter or digit"
                ),
            );
        }
    }

    fn into_result(self) -> Result<(), SpecErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(SpecErrors(self.0)) }
    }
}

impl SequenceSpec {
    fn check(&self, errors: &mut Errors) {
        if self.start >= SERIAL_MAX {
            errors.add(
                "sequence.start",
                format!("{} is too large; it must be below {SERIAL_MAX}", self.start),
            );
        }
        match template::parse(&self.template) {
            Err(error) => errors.add("sequence.template", error.to_string()),
            Ok(parts) => self.check_reset(&parts, errors),
        }
    }

    /// A counter that starts again must show in the ID when it did.
    fn check_reset(&self, parts: &[Part], errors: &mut Errors) {
        let has = |part| parts.contains(&Part::Date(part));
        let year = has(DatePart::Year) || has(DatePart::YearOfCentury);
        let (month, day) = (has(DatePart::Month), has(DatePart::Day));
        let (enough, needed) = match self.reset {
            Reset::Never => (true, ""),
            Reset::Yearly => (year, "{yyyy} or {yy}"),
            Reset::Monthly => (year && month, "{yyyy} or {yy}, and {mm}"),
            Reset::Daily => (year && month && day, "{yyyy} or {yy}, {mm} and {dd}"),
        };
        if !enough {
            errors.add(
                "sequence.template",
                format!(
                    "{:?} would give one ID for two serials, because the number starts again; \
                     with this reset it must contain {needed}",
                    self.template
                ),
            );
        }
    }
}

impl RandomSpec {
    /// Everything that is wrong with the settings.
    pub fn check(&self) -> Result<(), SpecErrors> {
        let mut errors = Errors::default();
        self.check_into(&mut errors);
        errors.into_result()
    }

    fn check_into(&self, errors: &mut Errors) {
        self.check_length(errors);
        if let Some(message) = self.check.refusal(&self.alphabet) {
            errors.add("random.check", message);
        }
        if self.group.is_some_and(|group| group == 0 || group >= self.length) {
            errors.add(
                "random.group",
                "a group must have at least one symbol and fewer than the whole ID; \
                 leave it out for no groups"
                    .to_owned(),
            );
        }
        if self.filters != FilterSpec::None && !self.alphabet.is_digits() {
            errors.add(
                "random.filters",
                format!(
                    "filters judge digits, and the alphabet is {}; use none, or the alphabet digits",
                    self.alphabet
                ),
            );
        }
        if let FilterSpec::Settings(settings) = &self.filters {
            let mut found = Vec::new();
            settings.validate(&mut found);
            for (field, message) in found {
                errors.add(&format!("random.filters.{field}"), message);
            }
        }
    }

    fn check_length(&self, errors: &mut Errors) {
        let check = self.check.symbols();
        let (min, max) = (ff1::LEN_MIN + check, ff1::LEN_MAX);
        let length = usize::from(self.length);
        if !(min..=max).contains(&length) {
            errors.add(
                "random.length",
                format!(
                    "{length} is outside the limits; with the check symbol {} an ID has {min} to \
                     {max} symbols",
                    self.check
                ),
            );
            return;
        }
        let filters_min = Filters::new(&self.filters).length_min();
        if length < filters_min {
            errors.add(
                "random.length",
                format!(
                    "the filters reject every ID of {length} digits; use {filters_min} or more"
                ),
            );
        }
        let radix = u128::from(self.alphabet.radix());
        let fits = |payload: usize| {
            u32::try_from(payload).is_ok_and(|payload| radix.checked_pow(payload).is_some())
        };
        if !fits(length - check) {
            let most = (min..length).rev().find(|length| fits(length - check)).unwrap_or(min);
            errors.add(
                "random.length",
                format!(
                    "{length} symbols of {radix} are more than 2^128 IDs; use at most {most} symbols"
                ),
            );
        }
    }
}
