//! `/docs`: the OpenAPI document as a page, made here so that it needs no script and no internet.

use std::fmt::Write as _;

use axum::response::Html;
use serde_json::{Map, Value};

const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}
h1{margin-bottom:0}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
section{margin:1.5rem 0;padding:.5rem 1rem;border:1px solid var(--line);border-radius:.5rem}
code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:var(--soft);padding:.75rem;overflow:auto}
table{border-collapse:collapse;width:100%;margin:.75rem 0}th:first-child,td:first-child{width:12rem}td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line)}
.method{display:inline-block;min-width:4.5rem;font-weight:700}
nav a{margin-right:1rem;white-space:nowrap}
";

/// What the stable codes of problems mean.
const PROBLEMS: [(&str, &str); 44] = [
    ("malformed_json", "The body is not JSON."),
    ("body_cut_off", "The connection ended before the body did."),
    ("invalid_idempotency_key", "The header Idempotency-Key is empty, too long or not ASCII."),
    ("unauthorized", "There is no API key, or it does not work."),
    ("missing_scope", "The key may not do this."),
    ("wrong_tenant", "The key belongs to another tenant."),
    ("cross_site", "A web page of another site tried to use a server that runs open."),
    ("body_too_slow", "Nothing of the body came for too long."),
    (
        "too_many_bodies",
        "The bodies of other requests take up all the memory that there is for them; see Retry-After.",
    ),
    ("not_found", "There is no such thing."),
    ("unknown_type", "The tenant has no such ID type."),
    ("method_not_allowed", "The path exists, but not with this method."),
    ("request_in_flight", "The first request with this idempotency key is still being worked on."),
    ("settings_are_fixed", "IDs were issued, so this setting cannot change any more."),
    ("exists", "Something with this name exists already."),
    ("in_use", "It cannot be deleted while it is in use."),
    ("retired", "The ID type was deleted; it issues no more IDs."),
    ("exhausted", "Fewer IDs are left than were asked for."),
    ("gapless", "The ID type gives its numbers to documents only."),
    ("payload_too_large", "The payload of a document is larger than the configuration allows."),
    ("no_sink", "The tenant has no sink for documents of this type."),
    ("reference_taken", "The client_reference belongs to a document with another payload."),
    ("not_held", "The reservation has ended: it is confirmed, released or expired."),
    ("body_too_large", "The body is larger than the configuration allows."),
    (
        "invalid_request",
        "The body or the query has the wrong shape; `detail` says what is accepted.",
    ),
    ("unknown_code", "No such code was ever made."),
    (
        "context_too_large",
        "A scan has more fields beside `tenant`, `type` and `code` than are kept; it was not counted.",
    ),
    ("not_a_code_type", "The codes of this ID type cannot be made in batches."),
    ("no_room", "The ID type has fewer codes left than were ordered."),
    ("too_dense", "So many of the possible codes would be real that they could be guessed."),
    ("too_many_batches", "The tenant has as many batches under way as it may have."),
    ("over_quota", "The tenant has ordered as many codes as it may."),
    ("batch_not_ready", "Not all codes of the batch are made yet."),
    (
        "too_many_downloads",
        "As many files as may be are being downloaded; try again when one is over.",
    ),
    ("range_not_satisfiable", "The part of a file that was asked for begins behind its end."),
    ("batch_ended", "The batch has ended and cannot be cancelled."),
    ("delivery_ended", "The delivery has arrived and cannot be given up."),
    ("idempotency_key_reused", "The idempotency key was used for a request with another body."),
    (
        "idempotency_key_refused",
        "The answer has a secret that is not kept, so a repeated request cannot be answered the same.",
    ),
    (
        "too_many_requests",
        "The key, its tenant or, without a key, the address is over its rate limit; see Retry-After.",
    ),
    (
        "page_expired",
        "The token of a page for consumers is missing or too old; load the page again.",
    ),
    ("pool_empty", "The pool is being refilled; try again."),
    ("timeout", "The request took longer than the configuration allows."),
    ("unavailable", "The store does not answer or cannot write; try again after Retry-After."),
];

pub(super) async fn page() -> Html<String> {
    let document: Value =
        serde_json::from_str(&super::openapi::document()).expect("our own document is JSON");
    Html(render(&document))
}

fn render(document: &Value) -> String {
    let mut page = String::new();
    let operations = operations(document);
    let mut tags: Vec<&str> = Vec::new();
    for operation in &operations {
        if !tags.contains(&operation.tag) {
            tags.push(operation.tag);
        }
    }
    let _ = write!(
        page,
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>Mintage API</title><style>{STYLE}</style><h1>Mintage API</h1><p>Version {}. {}</p>\
         <p>Machine-readable: <a href=/openapi.json>openapi.json</a></p><nav>",
        escape(text(&document["info"]["version"])),
        prose(text(&document["info"]["description"])),
    );
    for tag in tags.iter().chain(&["Problems"]) {
        let _ = write!(page, "<a href=\"#{}\">{}</a>", anchor(tag), escape(tag));
    }
    page.push_str("</nav>");
    for tag in tags {
        let _ = write!(page, "<h2 id=\"{}\">{}</h2>", anchor(tag), escape(tag));
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            operation.render(document, &mut page);
        }
    }
    page.push_str("<h2 id=problems>Problems</h2><table><tr><th>code<th>meaning");
    for (code, meaning) in PROBLEMS {
        let _ =
            write!(page, "<tr id=\"problem-{code}\"><td><code>{code}</code><td>{}", prose(meaning));
    }
    page.push_str("</table></html>");
    page
}

struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    tag: &'a str,
    body: &'a Value,
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, methods)| {
            methods.as_object().into_iter().flatten().map(move |(method, body)| Operation {
                method,
                path,
                tag: body["tags"][0].as_str().unwrap_or("Other"),
                body,
            })
        })
        .collect()
}

impl Operation<'_> {
    fn render(&self, document: &Value, page: &mut String) {
        let method = self.method.to_uppercase();
        let _ = write!(
            page,
            "<section><h3><span class=method>{method}</span><code>{}</code></h3><p><b>{}</b> {}</p>",
            escape(self.path),
            escape(text(&self.body["summary"])),
            prose(text(&self.body["description"])),
        );
        let parameters = self.body["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        if !parameters.is_empty() {
            page.push_str("<table><tr><th>parameter<th>in<th>meaning");
            for parameter in parameters {
                let _ = write!(
                    page,
                    "<tr><td><code>{}</code><td>{}<td>{}",
                    escape(text(&parameter["name"])),
                    escape(text(&parameter["in"])),
                    prose(text(&parameter["description"])),
                );
            }
            page.push_str("</table>");
        }
        self.render_request(document, page);
        self.render_answer(document, page);
        self.render_responses(page);
        page.push_str("</section>");
    }

    fn render_request(&self, document: &Value, page: &mut String) {
        let content = &self.body["requestBody"]["content"]["application/json"];
        if content.is_null() {
            return;
        }
        let schema = resolve(document, &content["schema"]);
        if let Some(fields) = schema["properties"].as_object() {
            render_fields(document, "field", fields, page);
        }
        if !content["example"].is_null() {
            let _ = write!(page, "<pre>{}</pre>", escape(&content["example"].to_string()));
        }
    }

    /// The fields of the first answer that is a success.
    fn render_answer(&self, document: &Value, page: &mut String) {
        let responses = self.body["responses"].as_object().into_iter().flatten();
        let mut successes = responses.filter(|(status, _)| status.starts_with('2'));
        let Some((_, success)) = successes.next() else { return };
        let schema = resolve(document, &success["content"]["application/json"]["schema"]);
        if let Some(fields) = schema["properties"].as_object() {
            render_fields(document, "answer", fields, page);
        }
    }

    fn render_responses(&self, page: &mut String) {
        let responses = self.body["responses"].as_object();
        page.push_str("<p>Answers:");
        for (status, response) in responses.into_iter().flatten() {
            let description = text(&response["description"]);
            let dash = if description.is_empty() { "" } else { " " };
            let _ = write!(page, " <code>{status}</code>{dash}{};", escape(description));
        }
        if page.ends_with(';') {
            page.pop();
        }
        page.push_str("</p>");
    }
}

fn render_fields(document: &Value, heading: &str, fields: &Map<String, Value>, page: &mut String) {
    let _ = write!(page, "<table><tr><th>{heading}<th>type<th>meaning");
    for (name, schema) in fields {
        let schema = resolve(document, schema);
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
            kind => text(kind).to_owned(),
        };
        let _ = write!(
            page,
            "<tr><td><code>{}</code><td>{}<td>{}",
            escape(name),
            escape(&kind),
            prose(text(&schema["description"])),
        );
    }
    page.push_str("</table>");
}

/// Follows a reference to a component.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Escapes a sentence and sets what stands between backticks as code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (i, part) in escape(text).split('`').enumerate() {
        if i > 0 {
            html.push_str(if i % 2 == 1 { "<code>" } else { "</code>" });
        }
        html.push_str(part);
    }
    html
}

fn anchor(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_on_the_page_and_text_is_escaped() {
        let document: Value = serde_json::from_str(&super::super::openapi::document()).unwrap();
        let page = render(&document);
        for operation in operations(&document) {
            assert!(page.contains(&escape(operation.path)), "{}", operation.path);
        }
        assert!(!page.contains("mtg_<short>"));
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
