//! `mintage webhooks`: whom a running server tells what happened.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use engine::webhooks::EventKind;
use serde_json::{Value, json};
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
    /// List the webhooks
    List,
    /// Create or change a webhook; the secret of a new one is shown only once
    Put {
        /// Its name
        name: String,
        /// Where it is
        #[arg(long)]
        url: String,
        /// What it is told of; may be given several times; everything where it is left out
        #[arg(long = "event", value_parser = PossibleValuesParser::new(EventKind::ALL.map(EventKind::name)))]
        events: Vec<String>,
    },
    /// Send one message of no consequence and tell how that went
    Test {
        /// Its name
        name: String,
    },
    /// Make a new secret, which is shown only once
    Rotate {
        /// Its name
        name: String,
        /// Hours in which the secret before signs as well
        #[arg(long, default_value_t = engine::webhooks::OVERLAP_HOURS_DEFAULT)]
        overlap_hours: u32,
    },
    /// Delete a webhook
    Delete {
        /// Its name
        name: String,
    },
    /// List what a webhook was told, the latest first
    Deliveries {
        /// Its name
        name: String,
        /// Only in this state: pending, delivered, dead or abandoned
        #[arg(long)]
        state: Option<String>,
    },
    /// Show a delivery with its attempts
    Show {
        /// Its number
        id: String,
    },
    /// Send a delivery again
    Replay {
        /// Its number
        id: String,
    },
    /// Give a delivery up
    Abandon {
        /// Its number
        id: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let query = tenant_query(args.tenant.as_deref());
    let path = |name: &str, rest: &str| format!("/api/v1/webhooks/{}{rest}{query}", escape(name));
    let delivery = |id: &str, rest: &str| format!("/api/v1/deliveries/{}{rest}", escape(id));
    let answer = match &args.what {
        What::List => {
            let webhooks = client.list(&format!("/api/v1/webhooks{query}"), "webhooks")?;
            let columns = ["name", "tenant", "url", "events", "disabled", "created_at"];
            return list(args, webhooks, &columns);
        }
        What::Deliveries { name, state } => {
            let state = state.as_deref().map_or_else(String::new, |state| {
                let separator = if query.is_empty() { '?' } else { '&' };
                format!("{separator}state={}", escape(state))
            });
            let path = path(name, "/deliveries") + &state;
            let columns = ["id", "event", "state", "attempts", "next_attempt_at", "created_at"];
            return list(args, client.list(&path, "deliveries")?, &columns);
        }
        What::Put { name, url, events } => {
            let events = (!events.is_empty()).then_some(events);
            let body = json!({"tenant": args.tenant, "url": url, "events": events});
            client.call(Method::PUT, &format!("/api/v1/webhooks/{}", escape(name)), Some(&body))?
        }
        What::Test { name } => {
            let trial = client.call(Method::POST, &path(name, "/test"), Some(&json!({})))?;
            print_json(&trial)?;
            let worked = trial["delivered"] == true;
            return Ok(if worked { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        What::Rotate { name, overlap_hours } => {
            let body = json!({"overlap_hours": overlap_hours});
            client.call(Method::POST, &path(name, "/rotate"), Some(&body))?
        }
        What::Delete { name } => {
            client.call(Method::DELETE, &path(name, ""), None)?;
            return Ok(ExitCode::SUCCESS);
        }
        What::Show { id } => client.call(Method::GET, &delivery(id, ""), None)?,
        What::Replay { id } => {
            client.call(Method::POST, &delivery(id, "/replay"), Some(&json!({})))?
        }
        What::Abandon { id } => {
            client.call(Method::POST, &delivery(id, "/abandon"), Some(&json!({})))?
        }
    };
    print_json(&answer)?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &Args, entries: Vec<Value>, columns: &[&str]) -> Result<ExitCode, Failure> {
    if args.server.json {
        print_json(&Value::Array(entries))?;
    } else {
        table::print(&entries, columns)?;
    }
    Ok(ExitCode::SUCCESS)
}
