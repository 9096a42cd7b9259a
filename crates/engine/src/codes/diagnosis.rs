//! Why a code that nobody knows may have come about: mistyped, badly scanned, of another type.

use std::time::Duration;

use idgen::alphabet::is_separator;
use idgen::error::ParseError;
use idgen::format::Format;
use idgen::random::RandomFormat;
use idgen::repair::{Mistake, Repair};

use super::{Codes, Unknown, code_key};
use crate::LiveType;
use crate::catalogue::Catalogue;
use crate::error::IssueError;

/// The verdict does not wait longer than this for what is only a help.
const TIME_MAX: Duration = Duration::from_millis(500);

/// Codes that are looked up in the store for one diagnosis.
const LOOKUPS_MAX: usize = 4;

/// Other types that a code is looked up in.
const TYPES_MAX: usize = 16;

/// What is probably wrong with a code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Diagnosis {
    /// It is a code of another type of the same tenant.
    WrongType {
        /// The name of that type.
        type_name: String,
    },
    /// Something went wrong on the way from the label to here.
    Mistake {
        /// What.
        mistake: Mistake,
        /// Symbols that are missing or too many, where that is the mistake.
        symbols: usize,
        /// The code that was meant. It is there only if that was made, and if it is the only one.
        meant: Option<String>,
    },
    /// It is well formed, and neither it nor anything like it was made.
    NeverMade,
    /// It is not well formed, and nothing like it was made.
    Unrecognised,
}

impl Diagnosis {
    /// A stable name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::WrongType { .. } => "wrong_type",
            Self::Mistake { mistake, .. } => mistake.name(),
            Self::NeverMade => "never_made",
            Self::Unrecognised => "unrecognised",
        }
    }
}

impl Codes {
    /// Says what is probably wrong with a code that is not known. None if the store does not answer
    /// in time: the verdict is right without it.
    pub async fn diagnose(
        &self,
        catalogue: &Catalogue,
        live: &LiveType,
        code: &str,
        unknown: &Unknown,
    ) -> Option<Diagnosis> {
        let search = async {
            if let Some(diagnosis) = self.of_another_type(catalogue, live, code).await? {
                return Ok(diagnosis);
            }
            let Format::Random(format) = live.format() else { return Ok(Diagnosis::Unrecognised) };
            let found = self.near_by(live, format, code).await?;
            Ok::<_, IssueError>(found.unwrap_or_else(|| by_its_form(format, unknown)))
        };
        tokio::time::timeout(TIME_MAX, search).await.ok()?.ok()
    }

    async fn of_another_type(
        &self,
        catalogue: &Catalogue,
        live: &LiveType,
        code: &str,
    ) -> Result<Option<Diagnosis>, IssueError> {
        let candidates = catalogue.of_tenant(live.stored().id_type.tenant()).into_iter();
        let candidates = candidates.filter(|other| other.stored().id != live.stored().id);
        let candidates = candidates.filter_map(|other| match other.format() {
            Format::Random(format) => format.parse(code).ok().map(|serial| (other, serial)),
            _ => None,
        });
        for (other, serial) in candidates.take(TYPES_MAX) {
            if let [_] = self.made(&other, [serial].into_iter()).await?[..] {
                let type_name = other.stored().id_type.name().to_owned();
                return Ok(Some(Diagnosis::WrongType { type_name }));
            }
        }
        Ok(None)
    }

    /// Looks for codes that were made and are one mistake away. The likeliest mistake that explains
    /// it counts.
    async fn near_by(
        &self,
        live: &LiveType,
        format: &RandomFormat,
        code: &str,
    ) -> Result<Option<Diagnosis>, IssueError> {
        let repairs = format.repairs(code);
        for same in repairs.chunk_by(|one, other| one.mistake == other.mistake) {
            let serials = same.iter().map(|Repair { serial, .. }| *serial);
            let made = self.made(live, serials).await?;
            let meant = match made[..] {
                [] => continue,
                [serial] => format.render(serial).ok(),
                // Any of them may have been meant; naming one would be a guess.
                _ => None,
            };
            let mistake = same[0].mistake;
            let typed = code.chars().filter(|c| !is_separator(*c)).count();
            let symbols = typed.abs_diff(format.shape().length());
            return Ok(Some(Diagnosis::Mistake { mistake, symbols, meant }));
        }
        Ok(None)
    }

    /// Those of the serials whose codes were made. Serials outside of every batch cost no access to
    /// the store. Where very many codes are real, more than a few of the serials may be in a batch;
    /// then they are taken for made, since they could not be told apart anyway.
    async fn made(
        &self,
        live: &LiveType,
        serials: impl Iterator<Item = u64>,
    ) -> Result<Vec<u64>, IssueError> {
        let ordered = self.ranges.find_among(live.stored().id, serials).await?;
        let mut made = Vec::new();
        for (serial, batch) in &ordered {
            let known = ordered.len() > LOOKUPS_MAX
                || self.store.code_from_copy(&code_key(live, *serial, batch)).await?.is_some();
            if known {
                made.push(*serial);
            }
        }
        Ok(made)
    }
}

/// What the form alone says.
fn by_its_form(format: &RandomFormat, unknown: &Unknown) -> Diagnosis {
    let length = format.shape().length();
    match unknown {
        Unknown::NeverMade => Diagnosis::NeverMade,
        Unknown::Malformed(ParseError::Length { found, .. }) if *found > 0 => Diagnosis::Mistake {
            mistake: if *found < length { Mistake::CutOff } else { Mistake::TooLong },
            symbols: found.abs_diff(length),
            meant: None,
        },
        Unknown::Malformed(_) => Diagnosis::Unrecognised,
    }
}
