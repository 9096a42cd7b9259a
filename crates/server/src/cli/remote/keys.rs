//! `mintage keys`: API keys, on a running server or straight in the data directory.
//!
//! The first key has to come from somewhere: a server does not listen beyond loopback without one.
//! Without `--server` the commands therefore open the data directory themselves, which works
//! while no server is running on it.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use engine::keys::{KeyOrder, Keys, LiveKey};
use jiff::Timestamp;
use serde_json::{Value, json};
use storage::Scope;
use ureq::http::Method;

use super::super::config::ConfigArgs;
use super::client::{Client, ServerArgs, print_json};
use super::table;
use crate::config::Config;
use crate::failure::Failure;
use crate::percent::escape;
use crate::stores;
use crate::wiring::{SystemClock, SystemEntropy};

const COLUMNS: [&str; 6] = ["key", "name", "tenant", "scopes", "created_at", "revoked_at"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,

    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a key and print it; it is shown only once
    Create {
        /// What people call it
        #[arg(long)]
        name: String,
        /// Whose it is; a key for every tenant where it is left out
        #[arg(long)]
        tenant: Option<String>,
        /// What it may do; may be given several times
        #[arg(long = "scope", required = true, value_parser = PossibleValuesParser::new(Scope::ALL.map(Scope::name)))]
        scopes: Vec<String>,
        /// Requests per second
        #[arg(long)]
        requests_per_second: Option<u32>,
        /// When it stops working by itself, such as 2027-01-01T00:00:00Z
        #[arg(long)]
        expires_at: Option<Timestamp>,
    },
    /// List the keys
    List,
    /// Revoke a key, at once and for ever
    Revoke {
        /// Its public part: the middle of mtg_…_…
        // `key` is the caller's own.
        #[arg(value_name = "KEY")]
        short: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let answer = if args.server.server.is_some() {
        online(&Client::new(&args.server)?, &args.what)?
    } else {
        let (config, _) = args.config.load()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("cannot start the runtime")?.block_on(offline(&config, &args.what))?
    };
    match (&args.what, &answer) {
        _ if args.server.json => print_json(&answer)?,
        (What::Create { .. }, answer) => {
            writeln!(io::stdout(), "{}", answer["token"].as_str().unwrap_or_default())?;
        }
        (What::List, Value::Array(keys)) => table::print(keys, &COLUMNS)?,
        _ => table::print(std::slice::from_ref(&answer), &COLUMNS)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn online(client: &Client, what: &What) -> Result<Value, Failure> {
    match what {
        What::Create { name, tenant, scopes, requests_per_second, expires_at } => {
            let order = json!({
                "name": name,
                "tenant": tenant,
                "scopes": scopes,
                "requests_per_second": requests_per_second,
                "expires_at": expires_at,
            });
            client.call(Method::POST, "/api/v1/keys", Some(&order))
        }
        What::List => Ok(Value::Array(client.list("/api/v1/keys", "keys")?)),
        What::Revoke { short } => {
            client.call(Method::DELETE, &format!("/api/v1/keys/{}", escape(short)), None)
        }
    }
}

async fn offline(config: &Config, what: &What) -> Result<Value, Failure> {
    let stores = stores::open(config).await.map_err(|error| {
        error.context("if a server is running on it, name the server with --server")
    })?;
    let store = stores.store;
    let keys = Keys::load(Arc::clone(&store), Arc::new(SystemClock), Arc::new(SystemEntropy), None)
        .await
        .map_err(anyhow::Error::from)?;
    let answer = match what {
        What::Create { name, tenant, scopes, requests_per_second, expires_at } => {
            let named = |scope: &Scope| scopes.iter().any(|name| name == scope.name());
            let order = KeyOrder {
                name: name.clone(),
                tenant: tenant.clone(),
                scopes: Scope::ALL.into_iter().filter(named).collect(),
                requests_per_second: *requests_per_second,
                expires_at: *expires_at,
            };
            let (live, token) = keys.create(order).await.map_err(anyhow::Error::from)?;
            let mut answer = describe(&live);
            answer["token"] = json!(token);
            answer
        }
        What::List => Value::Array(keys.all().iter().map(|key| describe(key)).collect()),
        What::Revoke { short } => {
            keys.revoke(short).await.map_err(anyhow::Error::from)?;
            let found = keys.all().into_iter().find(|live| live.stored().key.short == *short);
            found.map_or(Value::Null, |live| describe(&live))
        }
    };
    store.close().await.map_err(anyhow::Error::from)?;
    Ok(answer)
}

fn describe(live: &LiveKey) -> Value {
    serde_json::to_value(crate::http::KeyBody::new(live)).unwrap_or(Value::Null)
}
