//! Codes verified over HTTP, among few and among many.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::child::Server;
use super::load::{self, Load, Times};
use super::place::StoreKind;
use super::{Measurement, codes, parse_seconds};
use crate::failure::Failure;

/// Codes that are asked for, spread over the batch.
const SAMPLE: u64 = 50_000;

/// Few and many are measured in turns, so many times each.
const ROUNDS: u32 = 10;

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
    let (few, many) = measure(args)?;
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

/// Codes of one server, few and many, verified in turns: whatever else the machine does, it does to both.
fn measure(args: &Args) -> anyhow::Result<(Load, Load)> {
    let (server, _place) = codes::serve(args.store)?;
    let few = prepare(&server, "few", args.codes / 100)?;
    let many = prepare(&server, "stored", args.codes)?;
    // How long codes take to be written is measured elsewhere.
    args.store.write_out()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let connections = usize::from(args.connections);
    let turn = Duration::from_secs_f64(args.seconds / f64::from(ROUNDS));
    let (mut few_times, mut many_times) = (Times::default(), Times::default());
    let turns = few.iter().zip(&many).cycle().take(ROUNDS as usize + 1);
    for (round, (few, many)) in turns.enumerate() {
        let scan = |codes| load::time_requests(server.address, codes, connections, turn);
        let (few, many) =
            runtime.block_on(async { anyhow::Ok((scan(few).await?, scan(many).await?)) })?;
        // The first turn warms both up and is not counted.
        if round > 0 {
            few_times.add(few);
            many_times.add(many);
        }
    }
    Ok((few_times.load(), many_times.load()))
}

/// Makes so many codes. Returns requests for some of them, a part for each round.
fn prepare(server: &Server, id_type: &str, count: u64) -> anyhow::Result<Vec<Arc<[String]>>> {
    let (id, _) = codes::make(server, id_type, count, || Ok(()))?;
    let every = usize::try_from((count / SAMPLE).max(1))?;
    let sample = codes::sample(server, &id, every)?;
    let rounds = ROUNDS as usize;
    let part = |round| {
        // Each part is spread over the batch as well.
        let codes = sample.iter().skip(round).step_by(rounds);
        codes.map(|code| request(id_type, code)).collect()
    };
    Ok((0..rounds).map(part).collect())
}

fn request(id_type: &str, code: &str) -> String {
    let body = json!({"tenant": "bench", "type": id_type, "code": code}).to_string();
    load::post("/api/v1/scans", "", &body)
}
