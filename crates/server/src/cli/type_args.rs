//! Flags that describe an ID type, shared by every offline command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use idgen::alphabet::Alphabet;
use idgen::check::Check;
use idgen::filters::FilterSpec;
use idgen::spec::{DEFAULT_TENANT, IdType, Kind, RandomSpec};

use crate::failure::Failure;

const TYPE_FLAGS: [&str; 5] = ["alphabet", "length", "check", "filters", "group"];

/// An ID type, by single flags or from a file.
#[derive(Debug, Args)]
pub(crate) struct TypeArgs {
    /// digits, hex, crockford32, alnum, or the symbols themselves in order of value
    #[arg(long, default_value = "crockford32")]
    alphabet: String,

    /// Symbols of a code, check symbols included
    #[arg(long, default_value_t = 16)]
    length: u8,

    /// How typing errors are caught
    #[arg(long, default_value = "iso7064", value_parser = PossibleValuesParser::new(Check::ALL.map(Check::name)))]
    check: String,

    /// Which codes are never made (digits only)
    #[arg(long, default_value = "none", value_parser = ["none", "openg2p", "mosip"])]
    filters: String,

    /// Put a hyphen after every so many symbols
    #[arg(long, value_name = "SYMBOLS")]
    group: Option<u8>,

    /// Read the ID type from a YAML or JSON file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = TYPE_FLAGS)]
    type_file: Option<PathBuf>,
}

impl TypeArgs {
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
        };
        IdType::new(DEFAULT_TENANT, "codes", Kind::Random(spec))
            .map_err(|errors| Failure::usage(errors.to_string().replace("random.", "--")))
    }
}

/// JSON is YAML, so one reader does for both.
fn read_type_file(path: &Path) -> Result<IdType, Failure> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the type file {}", path.display()))?;
    serde_saphyr::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}
