//! A client, and what it is answered.

use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request, Response};

use super::DEADLINE;

/// Talks to a server.
pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: Option<String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// The text, if it is JSON; otherwise null.
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn new(url: &str) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(DEADLINE))
            .build()
            .new_agent();
        Self { agent, url: url.to_owned(), token: None }
    }

    pub(super) fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// A call that may fail, because the server may be killed meanwhile.
    pub(crate) fn try_call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Reply, ureq::Error> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match body {
            Some(body) => self.agent.run(request.body(body).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        Reply::read(response?)
    }

    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
        let reply = self
            .try_call(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(reply.header("x-request-id").is_some_and(|id| !id.is_empty()), "{reply:?}");
        reply
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, &[], None)
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.call(Method::DELETE, path, &[], None)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.call(Method::PUT, path, &[], Some(body.to_string().as_bytes()))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_text(path, &body.to_string())
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Reply {
        self.call(Method::POST, path, &[], Some(body.as_bytes()))
    }

    /// Asks for IDs with a body that is sent as it is.
    pub(crate) fn order(&self, body: &str) -> Reply {
        self.post_text("/api/v1/ids", body)
    }

    /// Issues IDs.
    pub(crate) fn issue(&self, id_type: &str, count: u64) -> Vec<String> {
        let reply = self.order(&format!(r#"{{"type":"{id_type}","count":{count}}}"#));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.ids()
    }

    /// What became of a serial (`serial=7`) or an ID (`id=…`).
    pub(crate) fn history(&self, id_type: &str, which: &str) -> Value {
        let reply = self.get(&format!("/api/v1/issuances?type={id_type}&{which}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }
}

impl Reply {
    fn read(mut response: Response<ureq::Body>) -> Result<Self, ureq::Error> {
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string()?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        let status = response.status().as_u16();
        Ok(Self { status, headers: response.headers().clone(), text, body })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The IDs of an answer to an order.
    pub(crate) fn ids(&self) -> Vec<String> {
        let ids = self.body["ids"].as_array().unwrap_or_else(|| panic!("{self:?}"));
        ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Checks that this is a complete problem document, and returns its detail.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> &str {
        assert_eq!((self.status, &self.body["code"]), (status, &code.into()), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        assert_eq!(self.body["type"], format!("/docs#problem-{code}"), "{self:?}");
        assert!(self.body["title"].as_str().is_some_and(|title| !title.is_empty()), "{self:?}");
        let known = ["type", "title", "status", "detail", "code", "errors"];
        assert!(self.body.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())));
        let detail = self.body["detail"].as_str().unwrap();
        assert!(detail.len() > 5 && !detail.contains("panicked"), "{self:?}");
        detail
    }
}
