//! IDs over HTTP, one per request, against a bare axum handler that formats a counter.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::State;
use axum::routing::post;

use super::child::Server;
use super::load::{self, Load};
use super::place::{Place, StoreKind};
use super::{Measurement, median, parse_seconds};
use crate::failure::Failure;

/// The contenders take turns, so that a busy moment of the machine hits both.
const ROUNDS: u8 = 5;

/// A limit that is checked on every request and never reached.
const REQUESTS_PER_SECOND: &str = "100000000";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store the server uses
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,

    /// Connections at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    connections: u16,

    /// Seconds for each contender
    #[arg(long, default_value_t = 10.0, value_parser = parse_seconds)]
    seconds: f64,

    /// The ID type to issue; by default a sample that uses what is special about the store
    #[arg(long = "type")]
    id_type: Option<String>,

    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(measure(args))?;
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &Args) -> anyhow::Result<()> {
    let id_type = args.id_type.as_deref().unwrap_or(args.store.sample_type());
    let body = format!("{{\"type\":\"{id_type}\"}}");
    let baseline = Server::baseline()?;
    let place = args.store.place()?;
    let server = Server::mintage(&place, "off")?;
    compare(args, "issue", &server, &request(&body, ""), &baseline).await?;
    drop(server);

    let place = args.store.place()?;
    let key = create_key(&place)?;
    let server = Server::mintage(&place, "required")?;
    let header = format!("authorization: Bearer {key}\r\n");
    compare(args, "issue_with_key", &server, &request(&body, &header), &baseline).await
}

async fn compare(
    args: &Args,
    name: &'static str,
    server: &Server,
    requests: &Arc<[String]>,
    baseline: &Server,
) -> anyhow::Result<()> {
    let connections = usize::from(args.connections);
    let turn = Duration::from_secs_f64(args.seconds / f64::from(ROUNDS));
    // The first turn warms both up and is not counted.
    let mut turns: Vec<(Load, Load)> = Vec::new();
    for round in 0..=ROUNDS {
        let ours = load::run(server.address, requests, connections, turn).await?;
        let theirs = load::run(baseline.address, requests, connections, turn).await?;
        if round > 0 {
            turns.push((ours, theirs));
        }
    }
    let value = median(turns.iter().map(|(ours, _)| ours.requests_per_second));
    let reference = median(turns.iter().map(|(_, theirs)| theirs.requests_per_second));
    let measurement = Measurement {
        connections: Some(connections),
        p50_ms: Some(median(turns.iter().map(|(ours, _)| ours.p50_ms))),
        p99_ms: Some(median(turns.iter().map(|(ours, _)| ours.p99_ms))),
        baseline_p99_ms: Some(median(turns.iter().map(|(_, theirs)| theirs.p99_ms))),
        ..Measurement::new(name, "requests/s", value, reference)
    };
    Ok(measurement.print(args.json)?)
}

fn request(body: &str, headers: &str) -> Arc<[String]> {
    [load::post("/api/v1/ids", headers, body)].into()
}

fn create_key(place: &Place) -> anyhow::Result<String> {
    let output = place
        .command()?
        .args(["keys", "create", "--name", "bench", "--scope", "issue"])
        .args(["--requests-per-second", REQUESTS_PER_SECOND])
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "cannot make a key: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The baseline: what axum itself can do.
pub(super) fn baseline_server() -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
        let counter = Arc::new(AtomicU64::new(0));
        let router = axum::Router::new()
            .route("/api/v1/ids", post(count))
            .route("/api/v1/documents", post(count))
            .with_state(counter);
        axum::serve(listener, router).await
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn count(State(counter): State<Arc<AtomicU64>>) -> String {
    format!("{{\"ids\":[\"{}\"]}}", counter.fetch_add(1, Ordering::Relaxed))
}
