//! `mintage audit`: who has done what on a running server.

use std::process::ExitCode;

use serde_json::Value;

use super::client::{Client, ServerArgs, print_json};
use super::table;
use crate::failure::Failure;
use crate::percent::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only of this tenant
    #[arg(long)]
    tenant: Option<String>,

    /// Only this, such as batch.downloaded
    #[arg(long)]
    action: Option<String>,

    /// Only what was done to this, such as the number of a batch
    #[arg(long)]
    subject: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let filters = [("tenant", &args.tenant), ("action", &args.action), ("subject", &args.subject)];
    let filters: Vec<String> = filters
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))))
        .collect();
    let path = format!("/api/v1/audit?{}", filters.join("&"));
    let deeds = Client::new(&args.server)?.list(&path, "deeds")?;
    if args.server.json {
        print_json(&Value::Array(deeds))?;
    } else {
        table::print(&deeds, &["at", "tenant", "key_name", "action", "subject", "detail"])?;
    }
    Ok(ExitCode::SUCCESS)
}
