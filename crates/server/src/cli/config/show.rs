//! `mintage config show`: what is in effect, and where does it come from?

use std::io::{self, Write as _};
use std::process::ExitCode;

use super::ConfigArgs;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,

    /// One JSON object, without the sources
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (_, effective) = args.config.load()?;
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &effective.to_json()).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        writeln!(out, "# What has no comment is a default.")?;
        out.write_all(effective.to_yaml().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
