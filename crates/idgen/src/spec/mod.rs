//! The specification of an ID type, as it is written in YAML or JSON.

mod fields;
mod frozen;
pub(crate) mod read;
mod rules;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::alphabet::Alphabet;
use crate::check::Check;
use crate::error::SpecErrors;
use crate::filters::FilterSpec;
use crate::sequence::Reset;
use crate::snowflake::SnowflakeSpec;
use read::Errors;
use rules::{RandomDraft, SequenceDraft, check_name};

/// Serials are below this: databases count in signed 64-bit numbers.
pub const SERIAL_MAX: u64 = i64::MAX as u64;

/// The tenant where nobody names one.
pub const DEFAULT_TENANT: &str = "default";

/// What a tenant numbers, and how the numbers look.
///
/// A value of this type is valid: reading one checks it as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "Written")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RandomSpec {
    /// The symbols.
    pub alphabet: Alphabet,
    /// Symbols of an ID, check symbols included, separators not.
    pub length: u8,
    /// How typing errors are caught.
    pub check: Check,
    /// Which candidates are never issued.
    pub filters: FilterSpec,
    /// A hyphen after every so many symbols.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Whether more than 1 in 10,000 of the possible codes may be real ones.
    pub allow_dense: bool,
    /// How the codes of batches are remembered.
    #[serde(skip_serializing_if = "Ledger::is_stored")]
    pub ledger: Ledger,
}

/// How the codes of batches are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ledger {
    /// A row for each code.
    #[default]
    Stored,
    /// The range of the batch is the record; a row appears when something happens to a code.
    Derived,
}

impl Ledger {
    /// All forms with their names.
    pub const NAMES: [(&'static str, Self); 2] =
        [("stored", Self::Stored), ("derived", Self::Derived)];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_stored(&self) -> bool {
        *self == Self::Stored
    }
}

impl RandomSpec {
    /// Everything that is wrong with the settings.
    pub fn check(&self) -> Result<(), SpecErrors> {
        let mut errors = Errors::default();
        RandomDraft::from(self).check(&mut errors);
        errors.into_result()
    }
}

/// The form in files: the kind is the one of three fields that is there.
#[derive(Clone, Serialize)]
struct Written {
    tenant: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<SequenceSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random: Option<RandomSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snowflake: Option<SnowflakeSpec>,
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

impl IdType {
    /// An ID type, if everything about it is right.
    pub fn new(tenant: &str, name: &str, kind: Kind) -> Result<Self, SpecErrors> {
        let mut errors = Errors::default();
        check_name("tenant", tenant, &mut errors);
        check_name("name", name, &mut errors);
        match &kind {
            Kind::Sequence(spec) => SequenceDraft::from(spec).check(&mut errors),
            Kind::Random(spec) => RandomDraft::from(spec).check(&mut errors),
            Kind::Snowflake(_) => {}
        }
        errors.into_result()?;
        Ok(Self { tenant: tenant.to_owned(), name: name.to_owned(), kind })
    }

    /// Reads an ID type that has been taken out of its YAML or JSON. The errors are all that
    /// there are, each with the path of its field.
    pub fn from_value(value: Value) -> Result<Self, SpecErrors> {
        let mut errors = Errors::default();
        let read = fields::read_id_type(value, &mut errors);
        errors.into_result()?;
        let (tenant, name, kind) = read.expect("what cannot be read is an error");
        Ok(Self { tenant, name, kind })
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Its name within the tenant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `tenant/name`, for messages.
    pub fn label(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }

    /// Its kind with the settings.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }
}

/// Goes through a tree of values, because serde stops at the first error and does not know the
/// path of the field that it is in.
impl<'de> Deserialize<'de> for IdType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Checks a name of a tenant or an ID type by itself.
pub fn valid_name(field: &str, name: &str) -> Result<(), SpecErrors> {
    let mut errors = Errors::default();
    check_name(field, name, &mut errors);
    errors.into_result()
}
