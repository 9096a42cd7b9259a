//! `mintage inspect`: everything that a code and its key tell.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use idgen::format::{Format, Parsed};
use idgen::key::TypeKey;
use idgen::spec::Kind;
use serde::Serializer as _;
use serde_json::{Value, json};

use super::for_each_code;
use super::type_args::TypeArgs;
use crate::failure::Failure;
use crate::offline::key_file;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Codes to inspect; without any, one per line of standard input
    #[arg(value_name = "CODE")]
    codes: Vec<String>,

    #[command(flatten)]
    id_type: TypeArgs,

    /// The key that the codes were made with
    #[arg(long, value_name = "FILE", default_value = "mintage.key")]
    key_file: PathBuf,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Names and values in the order in which they are shown.
type Findings = Vec<(&'static str, Value)>;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let id_type = args.id_type.id_type()?;
    let key = match id_type.kind() {
        Kind::Random(_) => key_file::read(&args.key_file)?.ok_or_else(|| {
            Failure::usage(format!(
                "there is no key file {}; name the one that the codes were made with by --key-file, \
                 or use mintage validate, which needs none",
                args.key_file.display()
            ))
        })?,
        _ => TypeKey::new([0; TypeKey::BYTES]),
    };
    let format = Format::new(&id_type, &key);

    let mut out = BufWriter::new(io::stdout().lock());
    let mut all_valid = true;
    for_each_code(&args.codes, |code| {
        let findings = describe(&format, code);
        all_valid &= findings.contains(&("valid", json!(true)));
        print(&mut out, &findings, args.json)?;
        Ok(())
    })?;
    out.flush()?;
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(format: &Format, code: &str) -> Findings {
    let parsed = format.parse(code);
    let mut findings = vec![("code", json!(code)), ("valid", json!(parsed.is_ok()))];
    match parsed {
        Ok(Parsed::Random(serial)) => findings.push(("serial", json!(serial))),
        Ok(Parsed::Sequence(serial, shown)) => {
            findings.push(("serial", json!(serial)));
            let parts = [
                ("year", shown.year.map(|year| json!(year))),
                ("month", shown.month.map(|month| json!(month))),
                ("day", shown.day.map(|day| json!(day))),
            ];
            findings.extend(parts.into_iter().filter_map(|(name, part)| Some((name, part?))));
        }
        Ok(Parsed::Snowflake(parts)) => {
            let time = jiff::Timestamp::from_millisecond(parts.unix_ms);
            findings.push(("time", json!(time.map(|time| time.to_string()).ok())));
            findings.push(("node", json!(parts.node)));
            findings.push(("counter", json!(parts.counter)));
        }
        Err(error) => {
            findings.push(("rule", json!(error.code())));
            findings.push(("detail", json!(error.to_string())));
        }
    }
    if let Format::Random(format) = format
        && let Some((found, right)) = format.shape().check_symbols(code)
        && !right.is_empty()
    {
        findings.push(("check_symbol", json!(found)));
        if found != right {
            findings.push(("check_symbol_expected", json!(right)));
        }
    }
    findings
}

fn print(out: &mut impl Write, findings: &Findings, json: bool) -> io::Result<()> {
    if json {
        let pairs = findings.iter().map(|(name, value)| (name, value));
        serde_json::Serializer::new(&mut *out).collect_map(pairs)?;
        return writeln!(out);
    }
    for (name, value) in findings {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writeln!(out, "{:<22}  {text}", name.replace('_', " "))?;
    }
    writeln!(out)
}
