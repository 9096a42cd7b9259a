//! `mintage serve`: the server.

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
    process::run(&config, Role::Server, |address| announce(address, &config))?;
    Ok(ExitCode::SUCCESS)
}

/// What a person needs to know, on standard output; the log is on standard error.
fn announce(address: SocketAddr, config: &Config) {
    let sample = config.id_types.first().map_or("TYPE", |id_type| id_type.name());
    let mut out = std::io::stdout().lock();
    // Nobody may be reading; that is no reason to stop.
    let _ = writeln!(
        out,
        "Mintage is listening on http://{address}\n\
         Reference:  http://{address}/docs\n\
         Data:       {}\n\
         Try it:     curl -s http://{address}/api/v1/ids -d '{{\"type\":\"{sample}\"}}'",
        stores::place(config)
    );
    let _ = out.flush();
}
