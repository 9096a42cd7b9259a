//! Codes made in the background, against the bare way of writing the same rows into the same store.

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use super::codes;
use super::memory::resident_mb;
use super::place::StoreKind;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store the server uses
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,

    /// How many codes
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: u64,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Outcome {
    codes: u64,
    seconds: f64,
    codes_per_second: f64,
    baseline_per_second: f64,
    ratio: f64,
    resident_most_mb: f64,
    derived_seconds: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let outcome = measure(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let text = serde_json::to_string(&outcome).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let Outcome { codes, seconds, codes_per_second, baseline_per_second, ratio, .. } = outcome;
    let Outcome { resident_most_mb, derived_seconds, .. } = outcome;
    writeln!(
        out,
        "{codes} codes in {seconds:.1} s   {codes_per_second:.0} codes/s   baseline \
         {baseline_per_second:.0}   ratio {ratio:.2}   resident {resident_most_mb:.0} MB at most   \
         derived: {derived_seconds:.3} s"
    )?;
    Ok(ExitCode::SUCCESS)
}

#[expect(clippy::cast_precision_loss, reason = "a rate does not need 64 bits")]
fn measure(args: &Args) -> anyhow::Result<Outcome> {
    // Half of the baseline before and half after, so that a busy moment of the machine hits both.
    let half = (args.count / 2).max(1);
    let before = args.store.bare_rows_per_second(half)?;
    let (server, _place) = codes::serve(args.store)?;
    let mut most = resident_mb(server.pid())?;
    let (_, seconds) = codes::make(&server, "stored", args.count, || {
        most = most.max(resident_mb(server.pid())?);
        Ok(())
    })?;
    let (_, derived_seconds) = codes::make(&server, "derived", args.count, || Ok(()))?;
    drop(server);
    let baseline = f64::midpoint(before, args.store.bare_rows_per_second(half)?);
    let codes_per_second = args.count as f64 / seconds;
    Ok(Outcome {
        codes: args.count,
        seconds,
        codes_per_second,
        baseline_per_second: baseline,
        ratio: codes_per_second / baseline,
        resident_most_mb: most,
        derived_seconds,
    })
}
