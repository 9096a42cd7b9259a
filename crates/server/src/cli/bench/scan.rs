//! Codes verified over HTTP, among few and among many.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::load::{self, Load};
use super::place::StoreKind;
use super::{Measurement, codes, parse_seconds};
use crate::failure::Failure;

/// Codes that are asked for, spread over the batch.
const SAMPLE: u64 = 50_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store the server uses
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,

    /// How many codes there are; the baseline is the same among a hundred times fewer
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    codes: u64,

    /// Connections at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,

    /// Seconds for each contender
    #[arg(long, default_value_t = 10.0, value_parser = parse_seconds)]
    seconds: f64,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let few = scan_among(args, args.codes / 100)?;
    let many = scan_among(args, args.codes)?;
    let measurement = Measurement {
        connections: Some(args.connections.into()),
        p50_ms: Some(many.p50_ms),
        p99_ms: Some(many.p99_ms),
        baseline_p99_ms: Some(few.p99_ms),
        ..Measurement::new("scan", "scans/s", many.requests_per_second, few.requests_per_second)
    };
    measurement.print(args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes so many codes on a new server and verifies some of them.
fn scan_among(args: &Args, count: u64) -> anyhow::Result<Load> {
    let (server, _place) = codes::serve(args.store)?;
    let (id, _) = codes::make(&server, "stored", count, || Ok(()))?;
    // How long codes take to be written is measured elsewhere.
    args.store.write_out()?;
    let every = usize::try_from((count / SAMPLE).max(1))?;
    let requests: Arc<[String]> =
        codes::sample(&server, &id, every)?.iter().map(|code| request(code)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let (connections, time) =
        (usize::from(args.connections), Duration::from_secs_f64(args.seconds));
    // A tenth of the time to warm up, which is not counted.
    runtime.block_on(load::run(server.address, &requests, connections, time / 10))?;
    runtime.block_on(load::run(server.address, &requests, connections, time))
}

fn request(code: &str) -> String {
    let body = json!({"tenant": "bench", "type": "stored", "code": code}).to_string();
    load::post("/api/v1/scans", "", &body)
}
