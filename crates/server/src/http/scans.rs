//! `POST /api/v1/scans` and `POST /api/v1/codes/{type}/{code}/void`.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::codes::{Scan, Unknown};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::{CodeStatus, Scope};
use utoipa::ToSchema;

use super::App;
use super::batches::{ReasonBody, VoidBody, check_text};
use super::extract::{Body, Path, Query};
use super::problem::Problem;
use super::request::{JsonBody, as_caller, once, read_json};
use super::types::TenantQuery;

/// A code as it was scanned or typed. Further fields, such as a place, are welcome and not kept.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ScanBody<'a> {
    /// Whose ID type; the key's tenant, or `default`, where it is left out.
    #[serde(default, borrow)]
    tenant: Option<Cow<'a, str>>,
    /// The ID type.
    #[serde(rename = "type", borrow)]
    #[schema(example = "bottle")]
    type_name: Cow<'a, str>,
    /// The code. Case, spaces, hyphens and look-alikes do not matter.
    #[serde(borrow)]
    code: Cow<'a, str>,
}

/// What a code is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerdictBody {
    /// `genuine`: real, and scanned for the first time; `repeated`: real, and scanned before; `void`:
    /// real once; `unknown`: never made.
    #[schema(value_type = String)]
    verdict: &'static str,
    /// How often it was scanned, this time included.
    scans: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    first_scanned_at: Option<Timestamp>,
    /// That it is void, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    void: Option<VoidBody>,
    /// The batch that it was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    /// Its ID, a snowflake.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The rule that an unknown code breaks, if it can not be one at all: `length`, `symbol`, `check`,
    /// `filter` or `out_of_range`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'static str>,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl From<Scan> for VerdictBody {
    fn from(scan: Scan) -> Self {
        match scan {
            Scan::Known { batch, serial, id, status } => {
                let CodeStatus { scans, first_scanned_at, void } = status;
                let verdict = match (&void, scans) {
                    (Some(_), _) => "void",
                    (None, 0 | 1) => "genuine",
                    (None, _) => "repeated",
                };
                Self {
                    verdict,
                    scans,
                    first_scanned_at,
                    void: void.map(VoidBody::from),
                    batch: Some(batch.0.to_string()),
                    serial: Some(serial.to_string()),
                    id: Some(id.to_string()),
                    rule: None,
                    detail: None,
                }
            }
            Scan::Unknown(unknown) => {
                let error = match &unknown {
                    Unknown::Malformed(error) => Some(error),
                    Unknown::NeverMade => None,
                };
                Self {
                    verdict: "unknown",
                    scans: 0,
                    first_scanned_at: None,
                    void: None,
                    batch: None,
                    serial: None,
                    id: None,
                    rule: error.map(idgen::error::ParseError::code),
                    detail: error.map(ToString::to_string),
                }
            }
        }
    }
}

/// Verify a code
///
/// Counts the scan. The same `Idempotency-Key` with the same body counts once.
#[utoipa::path(
    post,
    path = "/api/v1/scans",
    tag = "Codes",
    request_body = ScanBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 200, body = VerdictBody, description = "Whatever the verdict is"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
    )
)]
pub(crate) async fn scan(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Scan, async |caller| {
        let work = {
            let (app, caller, body) = (Arc::clone(&app), caller.clone(), body.clone());
            async move {
                let order: ScanBody<'_> = read_json(&body)?;
                let tenant = caller.tenant(order.tenant.as_deref())?;
                let live = app.engine.catalogue.find(&tenant, &order.type_name)?;
                let scan = app.engine.codes.scan(&live, &order.code).await?;
                Ok(JsonBody::ok(&VerdictBody::from(scan)))
            }
        };
        once(&app, &headers, caller, "scan", body, work).await
    })
    .await
}

/// Show a code
///
/// Like a scan, but it does not count.
#[utoipa::path(get, path = "/api/v1/codes/{type}/{code}", tag = "Codes", params(TenantQuery),
    responses((status = 200, body = VerdictBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((type_name, code)): Path<(String, String)>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Scan, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &type_name)?;
        Ok(JsonBody::ok(&VerdictBody::from(app.engine.codes.look(&live, &code).await?)))
    })
    .await
}

/// Make a code void
///
/// From the next scan on, on every instance. The first reason stays.
#[utoipa::path(post, path = "/api/v1/codes/{type}/{code}/void", tag = "Codes", params(TenantQuery),
    request_body = ReasonBody,
    responses((status = 200, body = VerdictBody),
        (status = 404, body = Problem, description = "No such type, or no such code")))]
pub(crate) async fn void(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((type_name, code)): Path<(String, String)>,
    Query(tenant): Query<TenantQuery>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let ReasonBody { reason } = read_json(&body)?;
        check_text("reason", &reason)?;
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &type_name)?;
        match app.engine.codes.void(&live, &code, &reason).await? {
            Scan::Unknown(_) => {
                let detail = "No such code was ever made.";
                Err(Problem::new(StatusCode::NOT_FOUND, "unknown_code", "Unknown code", detail))
            }
            known @ Scan::Known { .. } => Ok(JsonBody::ok(&VerdictBody::from(known))),
        }
    })
    .await
}
