//! `mintage validate`: what can be said about codes without their key.

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use idgen::error::ParseError;
use idgen::format::Format;
use idgen::key::TypeKey;
use serde::Serialize;

use super::for_each_code;
use super::type_args::TypeArgs;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Codes to check; without any, one per line of standard input
    #[arg(value_name = "CODE")]
    codes: Vec<String>,

    #[command(flatten)]
    id_type: TypeArgs,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Verdict<'a> {
    code: &'a str,
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    // No key is needed for the structure, so any will do.
    let format = Format::new(&args.id_type.id_type()?, &TypeKey::new([0; TypeKey::BYTES]));
    let check = |code: &str| -> Result<(), ParseError> {
        match &format {
            Format::Random(format) => format.shape().validate(code),
            other => other.parse(code).map(drop),
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut all_valid = true;
    for_each_code(&args.codes, |code| {
        let error = check(code).err();
        all_valid &= error.is_none();
        if args.json {
            let verdict = Verdict {
                code,
                valid: error.is_none(),
                rule: error.as_ref().map(ParseError::code),
                detail: error.as_ref().map(ToString::to_string),
            };
            serde_json::to_writer(&mut out, &verdict).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            match error {
                None => writeln!(out, "{code}: valid")?,
                Some(error) => writeln!(out, "{code}: invalid: {error}")?,
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
