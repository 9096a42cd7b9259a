//! `mintage pools`: what is ready on a running server.

use std::process::ExitCode;

use serde_json::Value;

use super::client::{Client, ServerArgs, print_json, tenant_query};
use super::table;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the pools of this tenant
    #[arg(long)]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let path = format!("/api/v1/pools{}", tenant_query(args.tenant.as_deref()));
    let pools = client.list(&path, "pools")?;
    if args.server.json {
        print_json(&Value::Array(pools))?;
    } else {
        table::print(
            &pools,
            &["tenant", "type", "period", "level", "size", "burn_rate", "valid_left", "days_left"],
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
