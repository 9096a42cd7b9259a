//! Thousands of pools that run low at the same moment, and the memory that it takes to refill them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::child::Server;
use super::memory::resident_mb;
use super::place::StoreKind;
use crate::failure::Failure;

/// Connections that empty the pools.
const CONNECTIONS: usize = 64;

/// IDs that are taken from each pool: beyond its watermark, so that it has to be refilled.
const TAKEN: u32 = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which store the server uses
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,

    /// How many pools
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pools: u32,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Outcome {
    pools: u32,
    ready_seconds: f64,
    emptied_seconds: f64,
    resident_before_mb: f64,
    resident_most_mb: f64,
    rise_mb: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let outcome = measure(args)?;
    let mut out = std::io::stdout().lock();
    let written = if args.json {
        serde_json::to_string(&outcome)
            .map_err(std::io::Error::from)
            .and_then(|text| writeln!(out, "{text}"))
    } else {
        let Outcome { pools, ready_seconds, emptied_seconds, .. } = outcome;
        let Outcome { resident_before_mb, resident_most_mb, rise_mb, .. } = outcome;
        writeln!(
            out,
            "{pools} pools   ready after {ready_seconds:.1} s   {TAKEN} IDs from each in \
             {emptied_seconds:.1} s   resident {resident_before_mb:.0} MB before, \
             {resident_most_mb:.0} MB at most   rise {rise_mb:.0} MB"
        )
    };
    written.map_err(anyhow::Error::from)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args) -> anyhow::Result<Outcome> {
    let place = args.store.place()?;
    let file = place.file("types.yaml");
    std::fs::write(&file, types(args.pools)).context("cannot write the configuration")?;
    let started = Instant::now();
    let server = Server::with_config(&place, &file)?;
    let ready_seconds = started.elapsed().as_secs_f64();
    settle(&server)?;
    let before = resident_mb(server.pid())?;
    let started = Instant::now();
    let most = empty_all(&server, args.pools)?;
    let emptied_seconds = started.elapsed().as_secs_f64();
    Ok(Outcome {
        pools: args.pools,
        ready_seconds,
        emptied_seconds,
        resident_before_mb: before,
        resident_most_mb: most,
        rise_mb: most - before,
    })
}

/// Half of them sequences, half random, so that every kind of pool is among them.
fn types(pools: u32) -> String {
    let mut yaml = String::from("id_types:\n");
    for i in 0..pools {
        let spec = match i % 2 {
            0 => "sequence: { template: \"S-{seq}\" }",
            _ => "random: { alphabet: crockford32, length: 16, check: iso7064 }",
        };
        let _ = writeln!(yaml, "  - {{ tenant: bench{}, name: p{i}, {spec} }}", i % 100);
    }
    yaml
}

/// Waits until what the start has left behind is done: memory stays where it is for a second.
fn settle(server: &Server) -> anyhow::Result<()> {
    let mut last = resident_mb(server.pid())?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = resident_mb(server.pid())?;
        if (now - last).abs() < 1.0 {
            return Ok(());
        }
        last = now;
    }
}

/// Takes from every pool, over all connections together, and returns the most memory that was seen.
fn empty_all(server: &Server, pools: u32) -> anyhow::Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let url = format!("http://{}/api/v1/ids", server.address);
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (next, url) = (Arc::clone(&next), url.clone());
            std::thread::spawn(move || -> anyhow::Result<()> {
                let agent = ureq::Agent::new_with_defaults();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= pools as usize {
                        return Ok(());
                    }
                    let body = format!(
                        "{{\"tenant\":\"bench{}\",\"type\":\"p{i}\",\"count\":{TAKEN}}}",
                        i % 100
                    );
                    agent
                        .post(&url)
                        .content_type("application/json")
                        .send(&body)?
                        .body_mut()
                        .read_to_string()?;
                }
            })
        })
        .collect();
    let mut most = 0.0_f64;
    while workers.iter().any(|worker| !worker.is_finished()) {
        most = most.max(resident_mb(server.pid())?);
        std::thread::sleep(Duration::from_millis(5));
    }
    for worker in workers {
        worker.join().map_err(|_| anyhow::anyhow!("a connection's thread failed"))??;
    }
    Ok(most.max(resident_mb(server.pid())?))
}
