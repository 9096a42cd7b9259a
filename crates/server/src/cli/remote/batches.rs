//! `mintage batches`: codes that a running server makes in the background.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json, tenant_query};
use super::download::download;
use super::table;
use crate::failure::Failure;
use crate::percent::escape;

/// How often a batch that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

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
    /// List the batches, the latest first
    List,
    /// Order codes
    Order {
        /// The ID type
        id_type: String,
        /// How many codes
        #[arg(long)]
        count: u64,
        /// A name for people
        #[arg(long)]
        name: Option<String>,
        /// Wait until they are made, and show the progress
        #[arg(long)]
        wait: bool,
    },
    /// Show one batch
    Show {
        /// Its number
        id: String,
    },
    /// Download the codes of a batch; one that broke off goes on, except for xlsx
    Codes {
        /// Its number
        id: String,
        /// The file to write; it must not exist
        #[arg(long)]
        out: PathBuf,
        /// csv, ndjson, txt or xlsx
        #[arg(long, default_value = "csv")]
        format: String,
    },
    /// Stop a batch
    Cancel {
        /// Its number
        id: String,
        /// Make the codes that are made already void, for this reason
        #[arg(long)]
        void_reason: Option<String>,
    },
    /// Make all codes of a batch void
    Recall {
        /// Its number
        id: String,
        /// Why; a scan shows it
        #[arg(long)]
        reason: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let path = |id: &str| format!("/api/v1/batches/{}", escape(id));
    let answer = match &args.what {
        What::List => {
            let query = tenant_query(args.tenant.as_deref());
            let batches = client.list(&format!("/api/v1/batches{query}"), "batches")?;
            if !args.server.json {
                let columns =
                    ["id", "tenant", "type", "name", "state", "made", "total", "created_at"];
                table::print(&batches, &columns)?;
                return Ok(ExitCode::SUCCESS);
            }
            Value::Array(batches)
        }
        What::Order { id_type, count, name, wait } => {
            let body =
                json!({"tenant": args.tenant, "type": id_type, "count": count, "name": name});
            let batch = client.call(Method::POST, "/api/v1/batches", Some(&body))?;
            let batch = if *wait { follow(&client, &batch)? } else { batch };
            print_json(&batch)?;
            let failed = batch["state"] == "needs_attention";
            return Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        What::Show { id } => client.call(Method::GET, &path(id), None)?,
        What::Codes { id, out, format } => {
            let query = format!("{}/codes?format={}", path(id), escape(format));
            let bytes = download(&client, &query, out)?;
            json!({"file": out, "bytes": bytes})
        }
        What::Cancel { id, void_reason } => {
            let body = json!({"void_reason": void_reason});
            client.call(Method::POST, &format!("{}/cancel", path(id)), Some(&body))?
        }
        What::Recall { id, reason } => {
            let body = json!({"reason": reason});
            client.call(Method::POST, &format!("{}/recall", path(id)), Some(&body))?
        }
    };
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the progress of a batch until it stops.
fn follow(client: &Client, batch: &Value) -> Result<Value, Failure> {
    let path = format!("/api/v1/batches/{}", batch["id"].as_str().unwrap_or_default());
    let bar = ProgressBar::new(batch["total"].as_u64().unwrap_or(0));
    let style = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} codes, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    loop {
        let batch = client.call(Method::GET, &path, None)?;
        bar.set_position(batch["made"].as_u64().unwrap_or(0));
        if !matches!(batch["state"].as_str(), Some("queued" | "running")) {
            bar.finish_and_clear();
            return Ok(batch);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
