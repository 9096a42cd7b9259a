//! `mintage worker`: a process that makes codes and looks after the cluster, and takes no orders.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use super::config::ConfigArgs;
use super::process;
use crate::config::Config;
use crate::failure::Failure;
use crate::stores;
use crate::wiring::Role;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (config, _) = args.config.load()?;
    check(&config)?;
    process::run(&config, Role::Worker, |address| announce(address, &config))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether there can be anything to do.
fn check(config: &Config) -> Result<(), Failure> {
    if config.postgres.url.is_none() {
        return Err(Failure::usage(
            "a worker needs postgres.url: the embedded store belongs to one process, and mintage serve \
             makes codes by itself",
        ));
    }
    if config.batches.workers == 0 {
        return Err(Failure::usage(
            "batches.workers is 0, so this worker would make no codes; give it a number of its own, for \
             instance with MINTAGE__BATCHES__WORKERS=2",
        ));
    }
    Ok(())
}

/// The first line is that of the server, for programs that wait for it.
fn announce(address: SocketAddr, config: &Config) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; that is no reason to stop.
    let _ = writeln!(
        out,
        "Mintage is listening on http://{address}\n\
         Worker:     codes of batches, in {} chunks at a time; no API\n\
         Probes:     http://{address}/livez, /readyz and /metrics\n\
         Data:       {}",
        config.batches.workers,
        stores::place(config)
    );
    let _ = out.flush();
}
