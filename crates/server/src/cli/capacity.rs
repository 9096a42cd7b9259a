//! `mintage capacity`: the size of a type's space.

use std::io::{self, Write as _};
use std::process::ExitCode;

use idgen::capacity::Capacity;
use idgen::spec::SERIAL_MAX;
use serde::Serialize;

use super::numbers::whole;
use super::type_args::TypeArgs;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    id_type: TypeArgs,

    /// IDs that are or will be issued, for the probability that a guess hits one
    #[arg(long, default_value_t = 1, value_parser = whole::<u64>(0..=SERIAL_MAX), allow_negative_numbers = true)]
    issued: u64,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    capacity: Capacity,
    /// Of the valid ones, those that a serial below 2^63 leads to.
    issuable: u128,
    issued: u64,
    guess_probability: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let spec = args.id_type.random("capacity")?;
    let capacity = Capacity::of(&spec).map_err(Failure::usage)?;
    let report = Report {
        capacity,
        issuable: capacity.issuable(),
        issued: args.issued,
        guess_probability: capacity.guess_probability(args.issued.into()),
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "space              {}", grouped(capacity.space))?;
    if capacity.exact {
        writeln!(out, "valid              {} (exact)", grouped(capacity.valid))?;
    } else {
        writeln!(out, "valid              about {}", grouped(capacity.valid))?;
        writeln!(
            out,
            "95 % interval      {} to {}",
            grouped(capacity.valid_low),
            grouped(capacity.valid_high)
        )?;
    }
    let about = if capacity.exact { "" } else { "about " };
    writeln!(out, "issuable           {about}{}", grouped(report.issuable))?;
    writeln!(
        out,
        "guess probability  {:.3e} with {} issued",
        report.guess_probability, args.issued
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A number with its thousands apart.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
    }
}
