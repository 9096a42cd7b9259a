//! `mintage tenants`: tenants of a running server.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json};
use super::table;
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
    /// List the tenants
    List,
    /// Create or change a tenant
    Put {
        /// Its name
        name: String,
        /// Requests per second that its keys may make together; no limit where it is left out
        #[arg(long)]
        requests_per_second: Option<u32>,
        /// Batches that may be under way at once; as for everybody where it is left out
        #[arg(long)]
        active_batches_max: Option<u32>,
        /// Codes that it may order in all; as for everybody where it is left out
        #[arg(long)]
        codes_max: Option<u64>,
    },
    /// Delete a tenant without ID types
    Delete {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let path = |name: &str| format!("/api/v1/tenants/{}", escape(name));
    match &args.what {
        What::List => {
            let tenants = client.list("/api/v1/tenants", "tenants")?;
            if args.server.json {
                print_json(&Value::Array(tenants))?;
            } else {
                let columns = [
                    "name",
                    "requests_per_second",
                    "active_batches_max",
                    "codes_max",
                    "created_at",
                ];
                table::print(&tenants, &columns)?;
            }
        }
        What::Put { name, requests_per_second, active_batches_max, codes_max } => {
            let settings = json!({
                "requests_per_second": requests_per_second,
                "active_batches_max": active_batches_max,
                "codes_max": codes_max,
            });
            print_json(&client.call(Method::PUT, &path(name), Some(&settings))?)?;
        }
        What::Delete { name } => {
            client.call(Method::DELETE, &path(name), None)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
