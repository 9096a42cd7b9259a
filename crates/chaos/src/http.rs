//! What a client asks an instance, and what can come of it.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{Request, Response};

use crate::id_types::TYPES;

/// How long a client waits. Longer than a server takes at most, unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order for IDs.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Which of the types.
    pub(crate) id_type: usize,
    pub(crate) count: usize,
    /// With it the same order can be given again.
    pub(crate) idempotency_key: Option<String>,
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Issued(Vec<String>),
    /// An answer without IDs: the status, and the stable code of the problem.
    Refused(u16, String),
    /// There was no answer. Nobody knows whether IDs were taken.
    Lost(String),
    /// It does not listen, so it was not even asked.
    NotThere,
}

/// Talks to instances.
pub(crate) struct Http(Agent);

impl Http {
    pub(crate) fn new() -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        Self(agent)
    }

    /// Gives an order.
    pub(crate) fn order(&self, url: &str, order: &Order) -> Outcome {
        let id_type = &TYPES[order.id_type];
        let body = serde_json::json!({
            "tenant": id_type.tenant, "type": id_type.name, "count": order.count,
        });
        let mut request = Request::post(format!("{url}/api/v1/ids"));
        if let Some(key) = &order.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(body.to_string()).expect("it is well formed");
        match self.0.run(request).map_err(|error| outcome(&error)).and_then(read) {
            Ok((200, body, _)) => ids(&body).map_or_else(
                || Outcome::Refused(200, "an answer without IDs".to_owned()),
                Outcome::Issued,
            ),
            Ok((503, _, false)) => Outcome::Refused(503, "without Retry-After".to_owned()),
            Ok((status, body, _)) => {
                Outcome::Refused(status, body["code"].as_str().unwrap_or_default().to_owned())
            }
            Err(outcome) => outcome,
        }
    }

    /// Sends a JSON document and returns status and answer, or none if there is no answer.
    pub(crate) fn post(&self, url: &str, body: &Value, key: Option<&str>) -> Option<(u16, Value)> {
        let mut request = Request::post(url);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(body.to_string()).expect("it is well formed");
        let (status, body, _) = read(self.0.run(request).ok()?).ok()?;
        Some((status, body))
    }

    /// Puts a JSON document and returns the status, or none if there is no answer.
    pub(crate) fn put(&self, url: &str, body: &Value) -> Option<u16> {
        let request = Request::put(url).body(body.to_string()).expect("it is well formed");
        Some(self.0.run(request).ok()?.status().as_u16())
    }

    /// A text, or none if there is no such answer.
    pub(crate) fn text(&self, url: &str) -> Option<String> {
        let request = Request::get(url).body(()).expect("it is well formed");
        let mut response = self.0.run(request).ok()?;
        let found = response.status() == 200;
        found.then(|| response.body_mut().read_to_string().ok()).flatten()
    }

    /// A JSON document, or none if there is no such answer.
    pub(crate) fn get(&self, url: &str) -> Option<Value> {
        let request = Request::get(url).body(()).expect("it is well formed");
        let (status, body, _) = read(self.0.run(request).ok()?).ok()?;
        (status == 200).then_some(body)
    }
}

/// The status, the body, and whether it says when to come again.
fn read(mut response: Response<ureq::Body>) -> Result<(u16, Value, bool), Outcome> {
    let text = response.body_mut().read_to_string().map_err(|error| outcome(&error))?;
    let again = response.headers().contains_key("retry-after");
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok((response.status().as_u16(), body, again))
}

fn outcome(error: &ureq::Error) -> Outcome {
    match error {
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            Outcome::NotThere
        }
        other => Outcome::Lost(other.to_string()),
    }
}

fn ids(body: &Value) -> Option<Vec<String>> {
    body["ids"].as_array()?.iter().map(|id| id.as_str().map(str::to_owned)).collect()
}
