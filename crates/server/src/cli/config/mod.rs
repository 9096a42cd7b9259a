//! `mintage config`: look at the configuration without starting anything.

mod check;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::config::{Config, Effective};
use crate::failure::Failure;
use crate::message::say;

/// Which configuration a command uses, shared by all that use one.
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// YAML or JSON file over the defaults; variables (`MINTAGE__SERVER__LISTEN`) go over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// Reads the configuration and prints its warnings to standard error.
    pub(crate) fn load(&self) -> Result<(Config, Effective), Failure> {
        let (config, effective) = Config::load_with_sources(self.config.as_deref(), environment())
            .map_err(Failure::usage)?;
        for warning in &config.warnings {
            say(format_args!("mintage: warning: {warning}"));
        }
        Ok((config, effective))
    }
}

/// The environment of this process. What is not Unicode is made so, in order that a setting with
/// a broken value is refused rather than passed over.
#[expect(clippy::disallowed_methods, reason = "here the environment is handed to the rest")]
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| {
        (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
    })
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say whether the configuration is right, and everything that is wrong with it
    Check(check::Args),
    /// Print every setting that is in effect, and where it comes from
    Show(show::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Check(args) => check::run(args),
        What::Show(args) => show::run(args),
    }
}
