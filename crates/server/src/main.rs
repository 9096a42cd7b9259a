//! `mintage`, the one executable. Every role is a subcommand; see `cli`.

mod cli;
mod failure;
mod offline;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
