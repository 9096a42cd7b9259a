//! A small client of the native API.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use ureq::http::Method;
use ureq::{Agent, http};

use super::table;
use crate::failure::Failure;
use crate::percent::escape;

/// Which server to talk to.
#[derive(Debug, clap::Args)]
pub(super) struct ServerArgs {
    /// Address of the server; `http://127.0.0.1:8080` where it is left out
    #[arg(long, global = true, env = "MINTAGE_SERVER", value_name = "URL")]
    pub(super) server: Option<String>,

    /// API key
    #[arg(long, global = true, env = "MINTAGE_KEY", value_name = "KEY", hide_env_values = true)]
    key: Option<String>,

    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

/// A connection to a server.
pub(super) struct Client {
    agent: Agent,
    server: String,
    key: Option<String>,
}

impl Client {
    pub(super) fn new(args: &ServerArgs) -> Result<Self, Failure> {
        let server = args.server.as_deref().unwrap_or("http://127.0.0.1:8080");
        let server = server.trim_end_matches('/').to_owned();
        if !server.starts_with("http://") {
            return Err(Failure::usage(format!(
                "--server {server}: use an address such as http://127.0.0.1:8080"
            )));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(60)))
            .http_status_as_error(false)
            .build()
            .new_agent();
        Ok(Self { agent, server, key: args.key.clone() })
    }

    /// Makes a call and returns the answer. A problem document becomes one sentence.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.read(self.send(&self.agent, method, path, &[], body)?)
    }

    /// Asks for something that may take any time to arrive, and returns it once it begins.
    pub(super) fn fetch(
        &self,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<http::Response<ureq::Body>, Failure> {
        let patient = Agent::config_builder().http_status_as_error(false).build().new_agent();
        let response = self.send(&patient, Method::GET, path, headers, None)?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.read(response).err().unwrap_or_else(|| anyhow!("no file").into()))
    }

    fn send(
        &self,
        agent: &Agent,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<http::Response<ureq::Body>, Failure> {
        let mut request = http::Request::builder().method(method).uri(self.server.clone() + path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let body = body.map_or_else(String::new, Value::to_string);
        let request = request
            .header("content-type", "application/json")
            .body(body)
            .map_err(|error| Failure::usage(format!("--server {}: {error}", self.server)))?;
        let response = agent
            .run(request)
            .with_context(|| format!("cannot reach the server at {}", self.server))?;
        Ok(response)
    }

    fn read(&self, mut response: http::Response<ureq::Body>) -> Result<Value, Failure> {
        let status = response.status();
        let text = response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()
            .context("the server's answer was cut off")?;
        if text.is_empty() && status.is_success() {
            return Ok(Value::Null);
        }
        let value: Value = serde_json::from_str(&text).map_err(|_| {
            anyhow!("{} answered {status} with something else than JSON", self.server)
        })?;
        if status.is_success() {
            return Ok(value);
        }
        let detail = value["detail"].as_str().unwrap_or("no details");
        Err(anyhow!("the server refused ({}): {detail}", status.as_u16()).into())
    }

    /// Every entry of a list, page by page.
    pub(super) fn list(&self, path: &str, entries: &str) -> Result<Vec<Value>, Failure> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page =
                self.call(Method::GET, &format!("{path}{separator}limit=1000{after}"), None)?;
            all.extend(page[entries].as_array().cloned().unwrap_or_default());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", escape(next)),
                None => return Ok(all),
            }
        }
    }
}

/// `?tenant=…` where one is named.
pub(super) fn tenant_query(tenant: Option<&str>) -> String {
    tenant.map_or_else(String::new, |tenant| format!("?tenant={}", escape(tenant)))
}

/// `?name=value&…` of those that have one.
pub(super) fn query(filters: &[(&str, Option<&str>)]) -> String {
    let named =
        |(name, value): &(&str, Option<&str>)| Some(format!("{name}={}", escape((*value)?)));
    let filters: Vec<String> = filters.iter().filter_map(named).collect();
    if filters.is_empty() { String::new() } else { format!("?{}", filters.join("&")) }
}

/// Prints a list as a table, or as it came.
pub(super) fn print_list(
    args: &ServerArgs,
    entries: Vec<Value>,
    columns: &[&str],
) -> Result<(), Failure> {
    if args.json {
        print_json(&Value::Array(entries))?;
    } else {
        table::print(&entries, columns)?;
    }
    Ok(())
}

/// Prints a value as it came.
pub(super) fn print_json(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)
}
