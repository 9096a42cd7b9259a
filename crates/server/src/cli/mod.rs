//! The command line: one file per command.

mod bench;
mod capacity;
mod config;
mod generate;
mod inspect;
mod numbers;
mod openapi;
mod process;
mod remote;
mod serve;
mod type_args;
mod usage;
mod validate;
mod worker;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::failure::Failure;

/// Issues business numbers, unguessable IDs and bulk codes, and accounts for every one of them.
#[derive(Debug, Parser)]
#[command(name = "mintage", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::Args),
    /// Make codes for servers on the same PostgreSQL, without an API
    Worker(worker::Args),
    /// Issue IDs from a running server
    Issue(remote::IssueArgs),
    /// List, create, change and delete ID types
    Types(remote::TypesArgs),
    /// List, create, change and delete tenants
    Tenants(remote::TenantsArgs),
    /// Make, list and revoke API keys
    Keys(remote::KeysArgs),
    /// Show how full the pools are and how long each ID type lasts
    Pools(remote::PoolsArgs),
    /// Order codes from a running server, follow, download, cancel and recall them
    Batches(remote::BatchesArgs),
    /// Assign IDs to documents, and see what became of them
    Documents(remote::DocumentsArgs),
    /// Make, change and delete sinks, where documents are delivered
    Sinks(remote::SinksArgs),
    /// Hold IDs until their documents are there
    Reservations(remote::ReservationsArgs),
    /// List numbers that will never carry anything, and why
    Gaps(remote::GapsArgs),
    /// Make, change and delete webhooks, and see what they were told
    Webhooks(remote::WebhooksArgs),
    /// Show who has downloaded which codes
    Audit(remote::AuditArgs),
    /// Make codes and write them to a file
    Generate(generate::Args),
    /// Show what a code is made of, or why it is invalid
    Inspect(inspect::Args),
    /// Check codes without their key: length, symbols, check symbol, filters
    Validate(validate::Args),
    /// Tell how many IDs a type has and how hard they are to guess
    Capacity(capacity::Args),
    /// Look at the configuration without starting anything
    Config(config::Args),
    /// Measure this machine against a baseline
    Bench(bench::Args),
    /// Print the OpenAPI document
    Openapi,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Reads the command line and does what it says.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::answer(&error),
    };
    match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Worker(args) => worker::run(&args),
        Command::Issue(args) => remote::issue(&args),
        Command::Types(args) => remote::types(&args),
        Command::Tenants(args) => remote::tenants(&args),
        Command::Keys(args) => remote::keys(&args),
        Command::Pools(args) => remote::pools(&args),
        Command::Batches(args) => remote::batches(&args),
        Command::Documents(args) => remote::documents(&args),
        Command::Sinks(args) => remote::sinks(&args),
        Command::Reservations(args) => remote::reservations(&args),
        Command::Gaps(args) => remote::gaps(&args),
        Command::Webhooks(args) => remote::webhooks(&args),
        Command::Audit(args) => remote::audit(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Capacity(args) => capacity::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Openapi => openapi::run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mintage", &mut script);
            io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The codes that a command works on: its arguments, or the lines of standard input.
fn for_each_code(
    codes: &[String],
    mut each: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !codes.is_empty() {
        return codes.iter().try_for_each(|code| each(code));
    }
    for line in io::stdin().lines() {
        let line = line.map_err(|error| {
            anyhow::Error::from(error).context("cannot read codes from standard input")
        })?;
        if !line.trim().is_empty() {
            each(&line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
