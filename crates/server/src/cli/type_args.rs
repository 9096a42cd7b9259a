//! Flags that describe an ID type, shared by every offline command.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use idgen::alphabet::Alphabet;
use idgen::check::Check;
use idgen::ff1;
use idgen::filters::FilterSpec;
use idgen::spec::{DEFAULT_TENANT, IdType, Kind, RandomSpec};
use serde_json::Value;

use super::numbers::whole;
use crate::failure::Failure;
use crate::offline::files::read_bounded;

/// Symbols of an ID; check symbols and filters can leave less room.
const LENGTHS: RangeInclusive<u64> = ff1::LEN_MIN as u64..=ff1::LEN_MAX as u64;

/// Symbols of a group, which must leave some for another.
const GROUPS: RangeInclusive<u64> = 1..=ff1::LEN_MAX as u64 - 1;

/// Room for any ID type and many comments.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

const TYPE_FLAGS: [&str; 5] = ["alphabet", "length", "check", "filters", "group"];

/// An ID type, by single flags or from a file.
#[derive(Debug, Args)]
pub(crate) struct TypeArgs {
    /// digits, hex, crockford32, alnum, or the symbols themselves in order of value
    #[arg(long, default_value = "crockford32")]
    alphabet: String,

    /// Symbols of a code, check symbols included
    #[arg(long, default_value_t = 16, value_parser = whole::<u8>(LENGTHS), allow_negative_numbers = true)]
    length: u8,

    /// How typing errors are caught
    #[arg(long, default_value = "iso7064", value_parser = PossibleValuesParser::new(Check::ALL.map(Check::name)))]
    check: String,

    /// Which codes are never made (digits only)
    #[arg(long, default_value = "none", value_parser = ["none", "openg2p", "mosip"])]
    filters: String,

    /// Put a hyphen after every so many symbols
    #[arg(long, value_name = "SYMBOLS", value_parser = whole::<u8>(GROUPS), allow_negative_numbers = true)]
    group: Option<u8>,

    /// Read the ID type from a YAML or JSON file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = TYPE_FLAGS)]
    type_file: Option<PathBuf>,
}

impl TypeArgs {
    /// The file that describes the ID type, if it is one that does.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.type_file.as_deref()
    }

    /// The ID type that the flags or the file describe.
    pub(crate) fn id_type(&self) -> Result<IdType, Failure> {
        match &self.type_file {
            Some(path) => read_type_file(path),
            None => self.described_by_flags(),
        }
    }

    /// The settings of a random type; other kinds are refused with the name of what needs one.
    pub(crate) fn random(&self, needed_by: &str) -> Result<RandomSpec, Failure> {
        match self.id_type()?.kind() {
            Kind::Random(spec) => Ok(spec.clone()),
            _ => Err(Failure::usage(format!("{needed_by} is about random types only"))),
        }
    }

    fn described_by_flags(&self) -> Result<IdType, Failure> {
        let alphabet = self
            .alphabet
            .parse::<Alphabet>()
            .map_err(|e| Failure::usage(format!("--alphabet: {e}")))?;
        let check = Check::ALL.into_iter().find(|check| check.name() == self.check);
        let filters = match self.filters.as_str() {
            "openg2p" => FilterSpec::Openg2p,
            "mosip" => FilterSpec::Mosip,
            _ => FilterSpec::None,
        };
        let spec = RandomSpec {
            alphabet,
            length: self.length,
            check: check.expect("the flag accepts these names only"),
            filters,
            group: self.group,
            allow_dense: false,
            ledger: idgen::spec::Ledger::Stored,
        };
        IdType::new(DEFAULT_TENANT, "codes", Kind::Random(spec))
            .map_err(|errors| Failure::usage(errors.to_string().replace("random.", "--")))
    }
}

/// JSON is YAML, so one reader does for both.
fn read_type_file(path: &Path) -> Result<IdType, Failure> {
    let context = || format!("cannot read the type file {}", path.display());
    let bytes = read_bounded(path, FILE_BYTES_MAX).with_context(context)?;
    let name = path.display();
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{name}: it is not text in UTF-8")))?;
    let options = serde_saphyr::options! { with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| Failure::usage(format!("{name}: {}", syntax_error(&error))))?;
    if value.is_null() {
        return Err(Failure::usage(format!(
            "{name}: it is empty; it must have a name, and one of sequence, random and snowflake"
        )));
    }
    IdType::from_value(value).map_err(|errors| Failure::usage(format!("{name}: {errors}")))
}

/// The place first, then what is wrong there.
fn syntax_error(error: &serde_saphyr::Error) -> String {
    let text = match error {
        serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("the field {key} is there twice; leave one out")
        }
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "another document begins here; a file describes one ID type".to_owned()
        }
        other => other.to_string(),
    };
    let Some(location) = error.location() else { return text };
    let (line, column) = (location.line(), location.column());
    let text = text.trim_end_matches(&format!(" at line {line}, column {column}"));
    format!("line {line} column {column}: {text}")
}
