//! `mintage config check`: is the configuration right?

use std::io::{self, Write as _};
use std::process::ExitCode;

use super::ConfigArgs;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    args.config.load()?;
    writeln!(io::stdout(), "ok")?;
    Ok(ExitCode::SUCCESS)
}
