//! `mintage bench`: speed, always beside a baseline that was measured in the same run.

mod render;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Render random codes, against the fpe crate's FF1
    Render(render::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Render(args) => render::run(args),
    }
}

/// One result. Every benchmark prints this form.
#[derive(Debug, Serialize)]
struct Measurement {
    name: &'static str,
    unit: &'static str,
    value: f64,
    baseline: f64,
    ratio: f64,
    threads: usize,
}

impl Measurement {
    /// Prints the result as a line for people or as a JSON object.
    fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer(&mut out, self)?;
            return writeln!(out);
        }
        writeln!(
            out,
            "{:<10} {:>2} thread{}  {:>12.0} {}   baseline {:>10.0}   ratio {:>6.1}",
            self.name,
            self.threads,
            if self.threads == 1 { " " } else { "s" },
            self.value,
            self.unit,
            self.baseline,
            self.ratio
        )
    }
}
