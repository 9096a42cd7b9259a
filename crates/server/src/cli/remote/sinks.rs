//! `mintage sinks`: where a running server delivers documents.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use ureq::http::Method;

use super::client::{Client, ServerArgs, print_json, print_list, tenant_query};
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
    /// List the sinks
    List,
    /// Create or change a sink; the secret of a new one with an address is shown only once
    Put {
        /// Its name
        name: String,
        /// A directory below outbound.directory of the server's configuration
        #[arg(long, required_unless_present = "url")]
        directory: Option<String>,
        /// An address that is sent each document, signed like a webhook
        #[arg(long, conflicts_with = "directory")]
        url: Option<String>,
        /// An ID type whose documents it takes; may be given several times; those that no other sink takes
        /// where it is left out
        #[arg(long = "type")]
        types: Vec<String>,
        /// The documents of a type have to arrive in order
        #[arg(long)]
        ordered: bool,
    },
    /// Delete a sink to which nothing has to be delivered any more
    Delete {
        /// Its name
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let query = tenant_query(args.tenant.as_deref());
    match &args.what {
        What::List => {
            let sinks = client.list(&format!("/api/v1/sinks{query}"), "sinks")?;
            let columns = ["name", "tenant", "directory", "url", "types", "ordered", "created_at"];
            print_list(&args.server, sinks, &columns)?;
        }
        What::Put { name, directory, url, types, ordered } => {
            let types = (!types.is_empty()).then_some(types);
            let body = json!({
                "tenant": args.tenant, "directory": directory, "url": url, "types": types,
                "ordered": ordered,
            });
            let path = format!("/api/v1/sinks/{}", escape(name));
            print_json(&client.call(Method::PUT, &path, Some(&body))?)?;
        }
        What::Delete { name } => {
            let path = format!("/api/v1/sinks/{}{query}", escape(name));
            client.call(Method::DELETE, &path, None)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
