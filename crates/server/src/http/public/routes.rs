//! The calls, and the forms in which they are answered.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::ask::verdict;
use super::page::{self, Shows};
use super::verdict::PublicVerdict;
use super::{Public, Visit};
use crate::http::extract::read_body_of;
use crate::http::metrics::PublicResult;
use crate::http::problem::Problem;
use crate::http::request::{JsonBody, read_json};
use crate::http::{App, nothing_at};

/// A token and what is around it.
const BODY_BYTES_MAX: usize = 1024;

/// What the page's script sends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenBody {
    /// The token of the page, from `data-token` on its `body`. It is good for ten minutes.
    token: String,
}

/// The page, or a look at the code for those who want JSON.
async fn show(app: &Arc<App>, request: Request) -> Response {
    let (request, _) = request.into_parts();
    let path = request.uri.path();
    let Some(public) = &app.public else { return nothing_at(path) };
    let visit = Visit::read(path);
    let mut response = if wants_json(&request.headers) {
        let verdict = match public.admit(app, &request) {
            Ok(()) => verdict(app, public, visit, None).await,
            Err(problem) => Err(problem),
        };
        json(verdict)
    } else {
        let token = public.tokens.issue(&visit.page());
        public.page.response(StatusCode::OK, &Shows::Waiting(&token))
    };
    page::add_headers(response.headers_mut());
    response
}

/// A verdict that counts. A form, which works without a script, is answered with a page.
async fn submit(app: &Arc<App>, request: Request) -> Response {
    let Some(public) = &app.public else { return nothing_at(request.uri().path()) };
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_form = kind.is_some_and(|kind| kind.starts_with(b"application/x-www-form-urlencoded"));
    let verdict = submitted(app, public, request, is_form).await;
    let mut response = if is_form { as_page(public, verdict) } else { json(verdict) };
    page::add_headers(response.headers_mut());
    response
}

async fn submitted(
    app: &Arc<App>,
    public: &Public,
    request: Request,
    is_form: bool,
) -> Result<PublicVerdict, Problem> {
    let (request, body) = request.into_parts();
    public.admit(app, &request)?;
    let visit = Visit::read(request.uri.path());
    let body = read_body_of(body, app, BODY_BYTES_MAX).await?;
    let token = if is_form { token_of_form(&body) } else { read_json::<TokenBody>(&body)?.token };
    if !public.tokens.accepts(&visit.page(), &token) {
        app.metrics.count_public(PublicResult::Expired);
        let detail = "Send the token of a page that was loaded in the last ten minutes.";
        let (status, title) = (StatusCode::FORBIDDEN, "The page has expired");
        return Err(Problem::new(status, "page_expired", title, detail));
    }
    verdict(app, public, visit, Some(token)).await
}

/// The field `token` of a form. Tokens need no decoding.
fn token_of_form(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let token = text.split('&').find_map(|field| field.strip_prefix("token="));
    token.unwrap_or_default().to_owned()
}

fn json(verdict: Result<PublicVerdict, Problem>) -> Response {
    match verdict {
        Ok(verdict) => JsonBody::ok(&verdict).into_response(),
        Err(problem) => problem.into_response(),
    }
}

fn as_page(public: &Public, verdict: Result<PublicVerdict, Problem>) -> Response {
    let problem = match verdict {
        Ok(verdict) => return public.page.response(StatusCode::OK, &Shows::Verdict(&verdict)),
        Err(problem) => problem.into_response(),
    };
    let status = problem.status();
    let limited = status == StatusCode::TOO_MANY_REQUESTS;
    let shows = if limited { Shows::Limited } else { Shows::Failed };
    let mut page = public.page.response(status, &shows);
    if let Some(seconds) = problem.headers().get(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
    }
    *page.extensions_mut() = problem.extensions().clone();
    page
}

/// Whether JSON is preferred to a page. Who does not care gets the page.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let quality = |kind: &str| {
        let ranges = accept.unwrap_or_default().split(',');
        let range = ranges.map(str::trim).find(|range| {
            range.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind))
        });
        let quality = range?.split(';').find_map(|part| part.trim().strip_prefix("q="));
        quality.map_or(Some(1.0), |quality| quality.parse::<f32>().ok())
    };
    let json = quality("application/json").unwrap_or(0.0);
    json > 0.0 && json > quality("text/html").unwrap_or(0.0)
}

/// Show a code to a consumer
///
/// A page for people with phones. Loading it counts nothing; its script does, in a browser. With
/// `Accept: application/json` the verdict itself, which does not count either. Only ID types of the
/// tenant `default` that are in `public.types`; everything else is `unknown`, like a code that was
/// never made, and is answered after the same time.
#[utoipa::path(get, path = "/v/{type}/{code}", tag = "Consumers", security(()),
    params(("type" = String, Path, description = "The ID type"),
        ("code" = String, Path, description = "The code as it was scanned or typed")),
    responses(
        (status = 200, description = "The page, or the verdict", content(
            (PublicVerdict = "application/json"), (String = "text/html"))),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many from this address or its network"),
    ))]
pub(crate) async fn view(State(app): State<Arc<App>>, request: Request) -> Response {
    show(&app, request).await
}

/// Verify a code as a consumer
///
/// Counts the scan, once for each token. Takes the token of the page, as JSON or as a form. A form is
/// answered with a page.
#[utoipa::path(post, path = "/v/{type}/{code}", tag = "Consumers", security(()),
    request_body = TokenBody,
    params(("type" = String, Path, description = "The ID type"),
        ("code" = String, Path, description = "The code as it was scanned or typed")),
    responses(
        (status = 200, body = PublicVerdict, description = "Whatever the verdict is"),
        (status = 403, body = Problem, content_type = "application/problem+json", description = "The token is missing or too old"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "Too many from this address or its network"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "No verdict at the moment, also while a request with the same token is not answered yet"),
    ))]
pub(crate) async fn verify(State(app): State<Arc<App>>, request: Request) -> Response {
    submit(&app, request).await
}

/// Show a code of another tenant to a consumer
///
/// Like `/v/{type}/{code}`.
#[utoipa::path(get, path = "/v/{tenant}/{type}/{code}", tag = "Consumers", security(()),
    params(("tenant" = String, Path, description = "Whose ID type"),
        ("type" = String, Path, description = "The ID type"),
        ("code" = String, Path, description = "The code as it was scanned or typed")),
    responses(
        (status = 200, description = "The page, or the verdict", content(
            (PublicVerdict = "application/json"), (String = "text/html"))),
        (status = 429, body = Problem, content_type = "application/problem+json"),
    ))]
pub(crate) async fn view_of_tenant(State(app): State<Arc<App>>, request: Request) -> Response {
    show(&app, request).await
}

/// Verify a code of another tenant as a consumer
///
/// Like `/v/{type}/{code}`.
#[utoipa::path(post, path = "/v/{tenant}/{type}/{code}", tag = "Consumers", security(()),
    request_body = TokenBody,
    params(("tenant" = String, Path, description = "Whose ID type"),
        ("type" = String, Path, description = "The ID type"),
        ("code" = String, Path, description = "The code as it was scanned or typed")),
    responses(
        (status = 200, body = PublicVerdict),
        (status = 403, body = Problem, content_type = "application/problem+json"),
        (status = 429, body = Problem, content_type = "application/problem+json"),
    ))]
pub(crate) async fn verify_of_tenant(State(app): State<Arc<App>>, request: Request) -> Response {
    submit(&app, request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_for_those_who_ask_for_it() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            wants_json(&headers)
        };
        for accept in [
            "application/json",
            "Application/JSON; q=0.5, */*;q=0.1",
            "text/plain, application/json",
        ] {
            assert!(wants(accept), "{accept}");
        }
        for accept in [
            "*/*",
            "",
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "text/html, application/json",
            "application/json;q=0",
        ] {
            assert!(!wants(accept), "{accept}");
        }
        assert!(!wants_json(&HeaderMap::new()));
    }
}
