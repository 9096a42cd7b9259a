//! `mintage sinks`: where a running server delivers documents.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};
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
    Put(Box<PutArgs>),
    /// Delete a sink to which nothing has to be delivered any more
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct PutArgs {
    /// Its name
    name: String,
    /// A directory below outbound.directory of the server's configuration
    #[arg(long, required_unless_present_any = ["url", "bucket"])]
    directory: Option<String>,
    /// An address that is sent each document, signed like a webhook
    #[arg(long, conflicts_with = "directory")]
    url: Option<String>,
    #[command(flatten)]
    bucket: BucketArgs,
    /// An ID type whose documents it takes; may be given several times; those that no other sink takes
    /// where it is left out
    #[arg(long = "type")]
    types: Vec<String>,
    /// The documents of a type have to arrive in order
    #[arg(long)]
    ordered: bool,
}

#[derive(Debug, clap::Args)]
struct BucketArgs {
    /// A bucket of an S3-compatible store
    #[arg(long, conflicts_with_all = ["directory", "url"], requires = "endpoint")]
    bucket: Option<String>,
    /// The address of the store
    #[arg(long, requires = "bucket", value_name = "URL")]
    endpoint: Option<String>,
    /// The region of the bucket
    #[arg(long, requires = "bucket", default_value = "us-east-1")]
    region: String,
    /// What the names of objects begin with
    #[arg(long, requires = "bucket", default_value = "")]
    prefix: String,
    /// Name the bucket in the host, and not in the path
    #[arg(long, requires = "bucket")]
    virtual_host: bool,
    /// Who asks for access to the bucket
    #[arg(long, env = "AWS_ACCESS_KEY_ID", default_value = "")]
    access_key_id: String,
    /// The secret that belongs to it; better in the environment than here
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    secret_access_key: Option<String>,
}

impl BucketArgs {
    fn to_json(&self) -> Option<Value> {
        let name = self.bucket.as_ref()?;
        Some(json!({
            "endpoint": self.endpoint, "name": name, "region": self.region, "prefix": self.prefix,
            "access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key,
            "virtual_host": self.virtual_host,
        }))
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.server)?;
    let query = tenant_query(args.tenant.as_deref());
    match &args.what {
        What::List => {
            let sinks = client.list(&format!("/api/v1/sinks{query}"), "sinks")?;
            let columns =
                ["name", "tenant", "directory", "url", "bucket", "types", "ordered", "created_at"];
            print_list(&args.server, sinks, &columns)?;
        }
        What::Put(put) => {
            let PutArgs { name, directory, url, bucket, types, ordered } = &**put;
            let types = (!types.is_empty()).then_some(types);
            let body = json!({
                "tenant": args.tenant, "directory": directory, "url": url,
                "bucket": bucket.to_json(), "types": types, "ordered": ordered,
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
