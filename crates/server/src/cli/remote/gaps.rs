//! `mintage gaps`: numbers that will never carry anything, each with a reason.

use std::io;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
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
    /// List the gaps of an ID type, the oldest first
    List {
        /// The ID type
        id_type: String,
        /// Only with this reason, or one of several with commas in between
        #[arg(long)]
        reason: Option<String>,
        /// Also those that are closed, because their documents have arrived after all
        #[arg(long)]
        closed: bool,
        /// Print a CSV file for auditors
        #[arg(long)]
        csv: bool,
    },
    /// Record that a gap is accepted
    SignOff {
        /// The ID type
        id_type: String,
        /// The number of the gap
        gap: String,
        /// Why it is accepted
        #[arg(long)]
        note: String,
    },
    /// Tell all that happened to an ID
    History {
        /// The ID type
        id_type: String,
        /// The ID
        id: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let tenant = args.tenant.as_deref();
    match &args.what {
        What::List { id_type, reason, closed, csv } => {
            let filters = [
                ("tenant", tenant),
                ("type", Some(id_type.as_str())),
                ("reason", reason.as_deref()),
                ("closed", closed.then_some("true")),
                ("format", csv.then_some("csv")),
            ];
            let path = format!("/api/v1/ids/gaps{}", query(&filters));
            if *csv {
                let file = client.fetch(&path, &[])?;
                io::copy(&mut file.into_body().into_reader(), &mut io::stdout().lock())?;
                return Ok(ExitCode::SUCCESS);
            }
            let columns = [
                "id",
                "first_id",
                "last_id",
                "count",
                "reason",
                "lost_at",
                "detected_at",
                "closed_at",
            ];
            print_list(&args.server, client.list(&path, "gaps")?, &columns)?;
        }
        What::SignOff { id_type, gap, note } => {
            let body = json!({"tenant": tenant, "type": id_type, "note": note});
            let path = format!("/api/v1/ids/gaps/{}/sign-off", escape(gap));
            print_json(&client.call(Method::POST, &path, Some(&body))?)?;
        }
        What::History { id_type, id } => {
            let tenant = tenant.unwrap_or(idgen::spec::DEFAULT_TENANT);
            let parts = [tenant, id_type, id].map(escape).join("/");
            let path = format!("/api/v1/ids/{parts}/history");
            print_json(&client.call(Method::GET, &path, None)?)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
