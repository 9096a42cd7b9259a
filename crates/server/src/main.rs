//! `mintage`, the one executable. Every role is a subcommand; see `cli`.

// They panic where nobody reads; see `message` and `failure`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod carrier;
mod cli;
mod config;
mod failure;
mod http;
mod message;
mod offline;
mod percent;
mod serve;
mod stores;
mod telemetry;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
