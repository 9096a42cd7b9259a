//! `mintage issue`: IDs from a running server.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::json;
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The ID type
    #[arg(value_name = "TYPE")]
    id_type: String,

    /// How many IDs
    #[arg(long, default_value_t = 1)]
    count: u64,

    /// The tenant, where the key does not tell
    #[arg(long)]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let mut order = json!({"type": args.id_type, "count": args.count});
    if let Some(tenant) = &args.tenant {
        order["tenant"] = json!(tenant);
    }
    let answer = client.call(Method::POST, "/api/v1/ids", Some(&order))?;
    if args.server.json {
        print_json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout().lock();
    for id in answer["ids"].as_array().into_iter().flatten() {
        writeln!(out, "{}", id.as_str().unwrap_or_default())?;
    }
    Ok(ExitCode::SUCCESS)
}
