//! `mintage documents`: IDs with payloads on a running server, and what became of them.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::{Value, json};
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json, print_list, query};
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
    /// List documents of an ID type, the latest first
    List {
        /// The ID type
        id_type: String,
        /// Only in this state: `PENDING`, `COMMITTED`, `DEAD_LETTER` or `ABANDONED`
        #[arg(long)]
        state: Option<String>,
    },
    /// Show a document
    Show {
        /// Its ID
        id: String,
    },
    /// Assign an ID to a document and print it
    Assign {
        /// The ID type
        id_type: String,
        /// The file that it is in, as JSON; standard input where it is left out
        #[arg(long)]
        file: Option<PathBuf>,
        /// What you call it; the same name gives the same ID again
        #[arg(long)]
        reference: Option<String>,
    },
    /// List documents that automatic retries gave up on
    Dead {
        /// Only of this ID type
        id_type: Option<String>,
    },
    /// Have dead letters tried again
    Retry(Which),
    /// Give dead letters up; their IDs are gaps from then on
    Abandon(Which),
}

/// Which dead letters, and why.
#[derive(Debug, clap::Args)]
struct Which {
    /// The ID of a document
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// All of an ID type instead
    #[arg(long, value_name = "TYPE", conflicts_with = "id")]
    all: Option<String>,
    /// Why; the audit log keeps it
    #[arg(long)]
    reason: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let tenant = args.tenant.as_deref();
    match &args.what {
        What::List { id_type, state } => {
            let filters =
                [("tenant", tenant), ("type", Some(id_type.as_str())), ("state", state.as_deref())];
            let found =
                client.list(&format!("/api/v1/documents{}", query(&filters)), "documents")?;
            let columns =
                ["id", "state", "attempts", "last_error", "next_attempt_at", "created_at"];
            print_list(&args.server, found, &columns)?;
        }
        What::Show { id } => {
            let path = format!("/api/v1/documents/{}{}", escape(id), query(&[("tenant", tenant)]));
            print_json(&client.call(Method::GET, &path, None)?)?;
        }
        What::Assign { id_type, file, reference } => {
            let body = json!({
                "tenant": tenant,
                "type": id_type,
                "payload": read(file.as_ref())?,
                "client_reference": reference,
            });
            let answer = client.call(Method::POST, "/api/v1/documents", Some(&body))?;
            if args.server.json {
                print_json(&answer)?;
            } else {
                writeln!(io::stdout(), "{}", answer["id"].as_str().unwrap_or_default())?;
            }
        }
        What::Dead { id_type } => {
            let filters =
                [("tenant", tenant), ("type", id_type.as_deref()), ("kind", Some("document"))];
            let path = format!("/api/v1/dead-letters{}", query(&filters));
            let columns = ["document", "tenant", "type", "attempts", "error", "died_at"];
            print_list(&args.server, client.list(&path, "dead_letters")?, &columns)?;
        }
        What::Retry(which) => print_json(&decide(&client, "retry", which, tenant)?)?,
        What::Abandon(which) => print_json(&decide(&client, "abandon", which, tenant)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn decide(
    client: &Client,
    what: &str,
    which: &Which,
    tenant: Option<&str>,
) -> Result<Value, Failure> {
    let Which { id, all, reason } = which;
    let body = json!({
        "tenant": tenant, "kind": "document", "document": id, "type": all, "reason": reason,
    });
    client.call(Method::POST, &format!("/api/v1/dead-letters/{what}"), Some(&body))
}

/// The JSON of a file, or of standard input.
pub(super) fn read(file: Option<&PathBuf>) -> Result<Value, Failure> {
    let (text, name) = match file {
        Some(file) => (std::fs::read_to_string(file), file.display().to_string()),
        None => (io::read_to_string(io::stdin()), "standard input".to_owned()),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    Ok(serde_json::from_str(&text).with_context(|| format!("{name} is not JSON"))?)
}
