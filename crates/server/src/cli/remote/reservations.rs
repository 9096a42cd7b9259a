//! `mintage reservations`: IDs that a running server holds until their documents are there.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json};
use super::documents::read;
use crate::failure::Failure;
use crate::percent::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Hold an ID
    Create {
        /// The ID type
        id_type: String,
        /// The tenant, where the key does not tell
        #[arg(long)]
        tenant: Option<String>,
        /// For how long; as configured where it is left out
        #[arg(long)]
        seconds: Option<u32>,
    },
    /// Show a reservation
    Show {
        /// Its number
        reservation: String,
    },
    /// Give the ID to a document
    Confirm {
        /// Its number
        reservation: String,
        /// The file that the document is in, as JSON; standard input where it is left out
        #[arg(long)]
        file: Option<PathBuf>,
        /// What you call the document
        #[arg(long)]
        reference: Option<String>,
    },
    /// Give the ID up; it is a gap from then on
    Release {
        /// Its number
        reservation: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let path = |id: &str, rest: &str| format!("/api/v1/reservations/{}{rest}", escape(id));
    let answer = match &args.what {
        What::Create { id_type, tenant, seconds } => {
            let body = json!({"tenant": tenant, "type": id_type, "hold_seconds": seconds});
            client.call(Method::POST, "/api/v1/reservations", Some(&body))?
        }
        What::Show { reservation } => client.call(Method::GET, &path(reservation, ""), None)?,
        What::Confirm { reservation, file, reference } => {
            let body = json!({"payload": read(file.as_ref())?, "client_reference": reference});
            client.call(Method::POST, &path(reservation, "/confirm"), Some(&body))?
        }
        What::Release { reservation } => {
            client.call(Method::POST, &path(reservation, "/release"), Some(&json!({})))?
        }
    };
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}
