//! `mintage bench`: speed, always beside a baseline that was measured in the same run.

mod batch;
mod child;
mod codes;
mod documents;
mod issue;
mod load;
mod memory;
mod place;
mod pools;
mod render;
mod scan;

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
    /// Issue IDs over HTTP, against a bare axum handler
    Issue(issue::Args),
    /// Let thousands of pools run low at once, and see what memory that takes
    Pools(pools::Args),
    /// Make codes in the background, against bare writing of the same rows
    Batch(batch::Args),
    /// Verify codes over HTTP among many, against the same among few
    Scan(scan::Args),
    /// Assign IDs to documents over HTTP and deliver them, against a bare axum handler
    Documents(documents::Args),
    /// The bare axum handler
    #[command(hide = true)]
    BaselineServer,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Render(args) => render::run(args),
        What::Issue(args) => issue::run(args),
        What::Pools(args) => pools::run(args),
        What::Batch(args) => batch::run(args),
        What::Scan(args) => scan::run(args),
        What::Documents(args) => documents::run(args),
        What::BaselineServer => issue::baseline_server(),
    }
}

/// One result. Every benchmark prints this form.
#[derive(Debug, Default, Serialize)]
struct Measurement {
    name: &'static str,
    unit: &'static str,
    value: f64,
    baseline: f64,
    ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_p99_ms: Option<f64>,
}

impl Measurement {
    fn new(name: &'static str, unit: &'static str, value: f64, baseline: f64) -> Self {
        Self { name, unit, value, baseline, ratio: value / baseline, ..Self::default() }
    }

    /// Prints the result as a line for people or as a JSON object.
    fn print(&self, json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer(&mut out, self)?;
            return writeln!(out);
        }
        let Self { name, unit, value, baseline, ratio, .. } = self;
        write!(
            out,
            "{name:<15} {value:>12.0} {unit}   baseline {baseline:>10.0}   ratio {ratio:>6.2}"
        )?;
        for (number, what) in [(self.threads, "threads"), (self.connections, "connections")] {
            if let Some(number) = number {
                write!(out, "   {number} {what}")?;
            }
        }
        for (ms, what) in
            [(self.p50_ms, "p50"), (self.p99_ms, "p99"), (self.baseline_p99_ms, "baseline p99")]
        {
            if let Some(ms) = ms {
                write!(out, "   {what} {ms:.2} ms")?;
            }
        }
        writeln!(out)
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.01 to 3600".to_owned()),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
