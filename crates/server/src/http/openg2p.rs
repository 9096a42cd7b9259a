//! OpenG2P's ID generator, on the wire: the same routes, envelopes and error codes.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use engine::error::IssueError;
use engine::issuing::IssueRequest;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use storage::Scope;

use super::App;
use super::request::{JsonBody, as_caller};

/// Where the routes begin.
pub(super) const PREFIX: &str = "/v1/idgenerator";

const TYPE_PATTERN: &str = "^[a-z][a-z0-9_]{1,63}$";
const ID_PATTERN: &str = "^\\d{1,32}$";

/// What every answer is wrapped in.
#[derive(Debug, Serialize)]
struct Envelope {
    id: &'static str,
    version: &'static str,
    responsetime: String,
    response: Value,
    errors: Vec<Value>,
}

/// The routes, with answers of their own for what does not exist.
pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/idgenerator/health", get(health).head(wrong_method))
        .route("/v1/idgenerator/version", get(version).head(wrong_method))
        .route("/v1/idgenerator/config", get(config).head(wrong_method))
        .route("/v1/idgenerator/{id_type}/id", post(issue))
        .route("/v1/idgenerator/{id_type}/id/validate/{id_value}", get(validate).head(wrong_method))
        .method_not_allowed_fallback(wrong_method)
}

async fn issue(
    State(app): State<Arc<App>>,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let id_type = path.map_or_else(|_| undecoded(&uri, 0), |Path(id_type)| id_type);
    if let Some(refusal) = refuse_malformed(&[("id_type", &id_type)]) {
        return refusal;
    }
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant(None)?;
        let request = IssueRequest {
            tenant: &tenant,
            type_name: &id_type,
            count: 1,
            key_id: caller.key_id(),
        };
        Ok(match app.engine.issuer.issue(request).await {
            Ok(ids) => success(&app, json!({"id": ids.get(0)})),
            Err(error) => failure(&app, &error, &id_type),
        })
    })
    .await
}

async fn validate(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let (id_type, id_value) =
        path.map_or_else(|_| (undecoded(&uri, 0), undecoded(&uri, 3)), |Path(path)| path);
    if let Some(refusal) = refuse_malformed(&[("id_type", &id_type), ("id_value", &id_value)]) {
        return refusal;
    }
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant(None)?;
        Ok(match app.engine.catalogue.find(&tenant, &id_type) {
            Ok(live) => {
                let valid = app.engine.validate(&live, &id_value).is_ok();
                success(&app, json!({"id": id_value, "valid": valid}))
            }
            Err(error) => failure(&app, &error, &id_type),
        })
    })
    .await
}

async fn health(State(app): State<Arc<App>>) -> Response {
    if app.shutting_down() || !app.engine.issuer.is_warm() {
        let message = "Service not ready: startup not complete";
        return error(&app, StatusCode::SERVICE_UNAVAILABLE, "IDG-005", message);
    }
    match app.check().await {
        Ok(()) => success(&app, json!({"status": "UP"})),
        Err(problem) => {
            let message = format!("Database health check failed: {problem}");
            error(&app, StatusCode::SERVICE_UNAVAILABLE, "IDG-006", &message)
        }
    }
}

async fn version(State(app): State<Arc<App>>) -> Response {
    let build = &app.build;
    let response = json!({
        "service_version": build.version,
        "build_time": build.time,
        "git_commit": build.commit,
    });
    success(&app, response)
}

async fn config(State(app): State<Arc<App>>) -> Response {
    success(&app, app.openg2p_config.clone())
}

async fn wrong_method(uri: Uri) -> Response {
    let allowed = match segments(uri.path())[..] {
        [_, "id"] => "POST",
        _ => "GET",
    };
    let body =
        JsonBody::new(StatusCode::METHOD_NOT_ALLOWED, &json!({"detail": "Method Not Allowed"}));
    ([(header::ALLOW, HeaderValue::from_static(allowed))], body).into_response()
}

/// What the path holds behind the prefix.
fn segments(path: &str) -> Vec<&str> {
    path.strip_prefix(PREFIX).unwrap_or(path).split('/').skip(1).collect()
}

/// A parameter as it stands in the path, for one that is not UTF-8 and so has no form at all.
fn undecoded(uri: &Uri, segment: usize) -> String {
    segments(uri.path()).get(segment).copied().unwrap_or_default().to_owned()
}

/// The original redirects a trailing slash on a route, and knows nothing else.
pub(super) fn no_such_route(uri: &Uri, headers: &HeaderMap) -> Response {
    if let Some(location) = route_without_slash(uri, headers) {
        return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response();
    }
    JsonBody::new(StatusCode::NOT_FOUND, &json!({"detail": "Not Found"})).into_response()
}

/// The absolute address of the route, if the path is one with a slash behind it.
fn route_without_slash(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    let path = uri.path().strip_suffix('/')?;
    let is_route = match segments(path)[..] {
        ["health" | "version" | "config"] => true,
        [id_type, "id"] => !id_type.is_empty(),
        [id_type, "id", "validate", id] => !id_type.is_empty() && !id.is_empty(),
        _ => false,
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = host.map_or_else(String::new, |host| format!("http://{host}"));
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    is_route.then(|| HeaderValue::try_from(format!("{origin}{path}{query}")).ok())?
}

fn success(app: &App, response: Value) -> Response {
    envelope(app, StatusCode::OK, response, Vec::new())
}

fn failure(app: &App, problem: &IssueError, id_type: &str) -> Response {
    let (status, code, message) = match problem {
        IssueError::UnknownType { .. } => {
            (StatusCode::NOT_FOUND, "IDG-003", format!("Unknown ID type '{id_type}'"))
        }
        IssueError::Exhausted { .. }
        | IssueError::Retired
        | IssueError::Gapless
        | IssueError::Date(_)
        | IssueError::Snowflake(_) => {
            (StatusCode::GONE, "IDG-002", format!("ID space exhausted for ID type '{id_type}'"))
        }
        IssueError::Unavailable(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, "IDG-006", format!("Database unavailable: {reason}"))
        }
        _ => {
            let message =
                format!("No IDs available for ID type '{id_type}'. Replenishment in progress.");
            (StatusCode::SERVICE_UNAVAILABLE, "IDG-001", message)
        }
    };
    error(app, status, code, &message)
}

fn error(app: &App, status: StatusCode, code: &str, message: &str) -> Response {
    let errors = vec![json!({"errorCode": code, "message": message})];
    let mut response = envelope(app, status, Value::Null, errors);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn envelope(app: &App, status: StatusCode, response: Value, errors: Vec<Value>) -> Response {
    let envelope = Envelope {
        id: "openg2p.idgenerator",
        version: "1.0",
        responsetime: format_time(app.clock.now()),
        response,
        errors,
    };
    JsonBody::new(status, &envelope).into_response()
}

/// Always three decimals, cut off rather than rounded.
fn format_time(time: Timestamp) -> String {
    format!("{:.3}", Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time))
}

/// 422 with one entry for each path parameter that does not have its form.
fn refuse_malformed(parameters: &[(&str, &str)]) -> Option<Response> {
    let entry = |&(name, value): &(&str, &str)| {
        let (pattern, fits) = match name {
            "id_type" => (TYPE_PATTERN, is_type_name(value)),
            _ => (ID_PATTERN, is_id(value)),
        };
        (!fits).then(|| {
            json!({
                "type": "string_pattern_mismatch",
                "loc": ["path", name],
                "msg": format!("String should match pattern '{pattern}'"),
                "input": value,
                "ctx": {"pattern": pattern},
            })
        })
    };
    let details: Vec<Value> = parameters.iter().filter_map(entry).collect();
    (!details.is_empty()).then(|| {
        JsonBody::new(StatusCode::UNPROCESSABLE_ENTITY, &json!({"detail": details})).into_response()
    })
}

fn is_type_name(text: &str) -> bool {
    (2..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Only ASCII digits are digits.
fn is_id(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_have_their_forms() {
        assert!(["farmer", "a1", "h_2"].into_iter().all(is_type_name));
        assert!(!["a", "Farmer", "1a", "a-b", "", "é1"].into_iter().any(is_type_name));
        assert!(is_id("0123456789") && !is_id("") && !is_id("٣٣") && !is_id(&"1".repeat(33)));
    }

    #[test]
    fn times_have_three_decimals() {
        let time: Timestamp = "2026-03-27T10:00:00.0009Z".parse().unwrap();
        assert_eq!(format_time(time), "2026-03-27T10:00:00.000Z");
    }
}
