//! `mintage types`: ID types of a running server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::Value;
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json, tenant_query};
use super::table;
use crate::failure::Failure;
use crate::percent::escape;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    /// The tenant, where the key does not tell
    #[arg(long, global = true)]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the types
    List,
    /// Show one type
    Show {
        /// Its name
        name: String,
    },
    /// Create or change a type
    Put {
        /// Its name
        name: String,
        /// YAML or JSON file with the specification
        #[arg(long)]
        file: PathBuf,
    },
    /// Delete a type, or retire it if it has issued IDs
    Delete {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let query = tenant_query(args.tenant.as_deref());
    let path = |name: &str| format!("/api/v1/types/{}{query}", escape(name));
    let answer = match &args.what {
        What::List => {
            let types = client.list(&format!("/api/v1/types{query}"), "types")?;
            if !args.server.json {
                table::print(&types, &["tenant", "name", "state", "created_at"])?;
                return Ok(ExitCode::SUCCESS);
            }
            Value::Array(types)
        }
        What::Show { name } => client.call(Method::GET, &path(name), None)?,
        What::Put { name, file } => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let spec: Value = serde_saphyr::from_str(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
            client.call(Method::PUT, &path(name), Some(&spec))?
        }
        What::Delete { name } => client.call(Method::DELETE, &path(name), None)?,
    };
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}
