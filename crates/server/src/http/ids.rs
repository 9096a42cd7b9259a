//! `POST /api/v1/ids` and `POST /api/v1/ids/validate`.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use engine::issuing::{IdList, IssueRequest};
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::auth::Caller;
use super::extract::{Body, read_body};
use super::problem::Problem;
use super::request::{IDEMPOTENCY_KEY, JsonBody, as_caller, once, read_json};
use super::unread::RequestBody;

/// The path of issuing.
pub(super) const PATH: &str = "/api/v1/ids";

/// An order for IDs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssueBody<'a> {
    /// Whose ID type; the key's tenant, or `default`, where it is left out.
    #[serde(default, borrow)]
    tenant: Option<Cow<'a, str>>,
    /// The ID type.
    #[serde(rename = "type", borrow)]
    #[schema(example = "bottle")]
    type_name: Cow<'a, str>,
    /// How many IDs, from 1 to 10,000.
    #[serde(default = "one")]
    #[schema(default = 1, minimum = 1, maximum = 10000)]
    count: u64,
}

fn one() -> u64 {
    1
}

/// IDs, in order of their serials.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IssuedBody {
    /// The IDs. Always text, whatever they look like.
    #[schema(example = json!(["5TFG-9M2K-QH7V-W0DA"]))]
    ids: Vec<String>,
}

/// Issue IDs
///
/// All that were asked for, or none. The same `Idempotency-Key` with the same body gives the same
/// IDs again, for 24 hours unless configured otherwise.
#[utoipa::path(
    post,
    path = "/api/v1/ids",
    tag = "IDs",
    request_body = IssueBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 200, body = IssuedBody),
        (status = 400, body = Problem, content_type = "application/problem+json", description = "Not JSON"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The first request with this idempotency key is still in flight"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "Exhausted or retired"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Invalid count, or an idempotency key with another body"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "Try again after Retry-After"),
    )
)]
pub(crate) async fn issue(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        issue_once(&app, &headers, caller, body).await
    })
    .await
}

/// The same for a request that did not come through the router.
pub(super) async fn issue_directly(
    app: &Arc<App>,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Response {
    as_caller(app, headers, Scope::Issue, async |caller| {
        let body = read_body(body, app).await?;
        issue_once(app, headers, caller, body).await
    })
    .await
}

async fn issue_once(
    app: &Arc<App>,
    headers: &HeaderMap,
    caller: &Caller,
    body: Bytes,
) -> Result<Response, Problem> {
    // Most requests have no key, and the rest of this would be moved around with each of them.
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(issue_for(app, caller, &body).await?.into_response());
    }
    let work = {
        let (app, caller, body) = (Arc::clone(app), caller.clone(), body.clone());
        async move { issue_for(&app, &caller, &body).await }
    };
    Box::pin(once(app, headers, caller, "issue", body, work)).await
}

async fn issue_for(app: &App, caller: &Caller, body: &[u8]) -> Result<JsonBody, Problem> {
    let order: IssueBody<'_> = read_json(body)?;
    let tenant = caller.tenant(order.tenant.as_deref())?;
    let request = IssueRequest {
        tenant: &tenant,
        type_name: &order.type_name,
        count: order.count,
        key_id: caller.key_id(),
    };
    let ids = app.engine.issuer.issue(request).await?;
    Ok(JsonBody { status: StatusCode::OK, bytes: write_ids(&ids) })
}

/// Written by hand because it is the hottest path of all: no intermediate list of strings.
fn write_ids(ids: &IdList) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + ids.len() * 28);
    bytes.extend_from_slice(b"{\"ids\":[");
    for (i, id) in ids.iter().enumerate() {
        if i > 0 {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, id).expect("memory can be written to");
    }
    bytes.extend_from_slice(b"]}");
    bytes
}

/// An ID to check.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValidateBody<'a> {
    /// Whose ID type.
    #[serde(default, borrow)]
    tenant: Option<Cow<'a, str>>,
    /// The ID type.
    #[serde(rename = "type", borrow)]
    type_name: Cow<'a, str>,
    /// The ID as it was typed or scanned.
    #[serde(borrow)]
    id: Cow<'a, str>,
}

/// What is known about the structure of an ID.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ValidatedBody<'a> {
    /// The ID as given.
    id: &'a str,
    /// Whether it could be one of ours. It says nothing about whether it was issued.
    valid: bool,
    /// The rule that failed: `length`, `symbol`, `check`, `filter` or `out_of_range`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    /// What is wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// Validate an ID
///
/// Structure only: length, symbols, check symbol and filters. Nothing is looked up.
#[utoipa::path(
    post,
    path = "/api/v1/ids/validate",
    tag = "IDs",
    request_body = ValidateBody,
    responses(
        (status = 200, body = ValidatedBody, description = "Valid or not"),
        (status = 404, body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn validate(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let order: ValidateBody<'_> = read_json(&body)?;
        let tenant = caller.tenant(order.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &order.type_name)?;
        let error = app.engine.validate(&live, &order.id).err();
        Ok(JsonBody::ok(&ValidatedBody {
            id: &order.id,
            valid: error.is_none(),
            rule: error.as_ref().map(idgen::error::ParseError::code),
            detail: error.as_ref().map(ToString::to_string),
        }))
    })
    .await
}
