//! `POST /api/v1/scans` and `POST /api/v1/codes/{type}/{code}/void`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use engine::LiveType;
use engine::codes::{Diagnosis, Scan, Unknown};
use hyper::body::Bytes;
use idgen::repair::Mistake;
use jiff::Timestamp;
use serde::Serialize;
use storage::{CodeStatus, ScanContext, Scope};
use utoipa::ToSchema;

use super::App;
use super::auth::Caller;
use super::batches::{ReasonBody, VoidBody, check_text};
use super::extract::{Body, Path, Query, read_body};
use super::problem::Problem;
use super::request::{JsonBody, as_caller, idempotency_key, once, post_once, read_json};
use super::scan_body::ScanBody;
use super::types::TenantQuery;
use super::unread::RequestBody;

/// The path of scanning.
pub(super) const PATH: &str = "/api/v1/scans";

/// What a code is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerdictBody {
    /// `genuine`: real, and not scanned before; `repeated`: real, and scanned before; `void`: real once;
    /// `unknown`: never made.
    #[schema(value_type = String)]
    verdict: &'static str,
    /// How often it was scanned, this time included if this counts.
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
    /// What is probably wrong with an unknown code. Missing while the store does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<DiagnosisBody>,
}

/// What is probably wrong with a code.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiagnosisBody {
    /// `wrong_type`: it is a code of another ID type; `case`, `look_alike`, `swapped` (two neighbours),
    /// `mistyped` (one symbol): it is a real code but for this; `cut_off`, `too_long`: it has too few or
    /// too many symbols; `never_made`: well formed, and nothing like it was made; `unrecognised`:
    /// none of these.
    #[schema(value_type = String)]
    kind: &'static str,
    /// The same for people.
    detail: String,
    /// The code that was meant. Only a code that was made is ever named, and only if no other one
    /// could have been meant as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    did_you_mean: Option<String>,
    /// The ID type that it is a code of, where the kind is `wrong_type`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    type_name: Option<String>,
}

impl From<Diagnosis> for DiagnosisBody {
    fn from(diagnosis: Diagnosis) -> Self {
        let kind = diagnosis.kind();
        let detail = sentence(&diagnosis);
        let (did_you_mean, type_name) = match diagnosis {
            Diagnosis::WrongType { type_name } => (None, Some(type_name)),
            Diagnosis::Mistake { meant, .. } => (meant, None),
            Diagnosis::NeverMade | Diagnosis::Unrecognised => (None, None),
        };
        Self { kind, detail, did_you_mean, type_name }
    }
}

fn sentence(diagnosis: &Diagnosis) -> String {
    let (mistake, symbols) = match diagnosis {
        Diagnosis::WrongType { type_name } => {
            return format!("It is a code of the ID type {type_name}.");
        }
        Diagnosis::NeverMade => {
            return "It is well formed, but neither it nor anything like it was made.".to_owned();
        }
        Diagnosis::Unrecognised => return "It is not like any code that was made.".to_owned(),
        Diagnosis::Mistake { mistake, symbols, .. } => (*mistake, *symbols),
    };
    let symbols = if symbols == 1 { "1 symbol".to_owned() } else { format!("{symbols} symbols") };
    match mistake {
        Mistake::Case => "Small letters and capitals are mixed up.".to_owned(),
        Mistake::LookAlike => "A character was taken for one that looks like it.".to_owned(),
        Mistake::Swapped => "Two neighbouring symbols are in the wrong order.".to_owned(),
        Mistake::Mistyped => "One symbol is wrong.".to_owned(),
        Mistake::CutOff => format!("It is cut off: {symbols} missing."),
        Mistake::TooLong => format!("It has {symbols} too many."),
    }
}

/// How somebody has come to know of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// By a scan, which is one of those that were counted.
    Counted,
    /// By a look, which is not.
    NotCounted,
}

/// What to call a code that was made.
pub(super) fn verdict_on(status: &CodeStatus, seen: Seen) -> &'static str {
    let before = match seen {
        Seen::Counted => status.scans.saturating_sub(1),
        Seen::NotCounted => status.scans,
    };
    match (&status.void, before) {
        (Some(_), _) => "void",
        (None, 0) => "genuine",
        (None, _) => "repeated",
    }
}

impl VerdictBody {
    fn new(scan: Scan, seen: Seen) -> Self {
        match scan {
            Scan::Known { batch, serial, id, status } => {
                let verdict = verdict_on(&status, seen);
                let CodeStatus { scans, first_scanned_at, void } = status;
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
                    diagnosis: None,
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
                    diagnosis: None,
                }
            }
        }
    }
}

/// The verdict for somebody who may know everything, with a diagnosis where a code is unknown.
async fn verdict(app: &App, live: &LiveType, code: &str, scan: Scan, seen: Seen) -> VerdictBody {
    let Scan::Unknown(unknown) = &scan else { return VerdictBody::new(scan, seen) };
    let engine = &app.engine;
    // Boxed, so that scans of real codes do not carry around what they do not need.
    let diagnosis = Box::pin(engine.codes.diagnose(&engine.catalogue, live, code, unknown)).await;
    let diagnosis = diagnosis.map(DiagnosisBody::from);
    VerdictBody { diagnosis, ..VerdictBody::new(scan, seen) }
}

/// Verify a code
///
/// Counts the scan, and keeps the further fields of the body with it. The same `Idempotency-Key` with the
/// same body counts once.
#[utoipa::path(
    post,
    path = "/api/v1/scans",
    tag = "Codes",
    request_body = ScanBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 200, body = VerdictBody, description = "Whatever the verdict is"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The further fields are too large"),
    )
)]
pub(crate) async fn scan(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Scan, async |caller| {
        scan_once(&app, &headers, caller, body).await
    })
    .await
}

/// The same for a request that did not come through the router.
pub(super) async fn scan_directly(
    app: &Arc<App>,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Response {
    as_caller(app, headers, Scope::Scan, async |caller| {
        let body = read_body(body, app).await?;
        scan_once(app, headers, caller, body).await
    })
    .await
}

async fn scan_once(
    app: &Arc<App>,
    headers: &HeaderMap,
    caller: &Caller,
    body: Bytes,
) -> Result<Response, Problem> {
    // Most requests have no key, and the rest of this would be moved around with each of them.
    let Some(key) = idempotency_key(headers)? else {
        return Ok(scan_for(app, caller, &body, None).await?.into_response());
    };
    let work = {
        let (app, caller, body) = (Arc::clone(app), caller.clone(), body.clone());
        let key = key.to_owned();
        async move { scan_for(&app, &caller, &body, Some(&key)).await }
    };
    Box::pin(once(app, headers, caller, "scan", body, work)).await
}

async fn scan_for(
    app: &App,
    caller: &Caller,
    body: &[u8],
    key: Option<&str>,
) -> Result<JsonBody, Problem> {
    let order: ScanBody<'_> = read_json(body)?;
    let tenant = caller.tenant(order.tenant.as_deref())?;
    let live = app.engine.catalogue.find(&tenant, &order.type_name)?;
    let (codes, code) = (&app.engine.codes, &*order.code);
    // Where nothing is kept, nobody has to say less.
    let context = if codes.keeps_contexts() { order.context()? } else { None };
    let context = context.map(|json| ScanContext { key_id: caller.key_id(), json });
    let scan = match key {
        None => codes.scan(&live, code, context).await?,
        Some(key) => codes.scan_once(&live, code, &caller.scope(), key, context).await?,
    };
    let verdict = verdict(app, &live, &order.code, scan, Seen::Counted).await;
    Ok(JsonBody::ok(&verdict))
}

/// Show a code
///
/// Like a scan, but it does not count: a code that was scanned once is `repeated` here. Where there are
/// read replicas, what happened in the last few seconds may be missing, and where there is Redis, the scans
/// that other instances have counted in the last half second; a scan always knows of everything.
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
        let scan = app.engine.codes.glance(&live, &code).await?;
        Ok(JsonBody::ok(&verdict(&app, &live, &code, scan, Seen::NotCounted).await))
    })
    .await
}

pub(super) fn unknown_code() -> Problem {
    let detail = "No such code was ever made.";
    Problem::new(StatusCode::NOT_FOUND, "unknown_code", "Unknown code", detail)
}

/// Make a code void
///
/// From the next scan on, on every instance. The first reason stays.
#[utoipa::path(post, path = "/api/v1/codes/{type}/{code}/void", tag = "Codes",
    params(TenantQuery, ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
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
    let about = format!("{:?} {type_name} {code}", tenant.tenant);
    post_once(&app, &headers, Scope::Batch, "void", &about, body, |app, caller, body| async move {
        let ReasonBody { reason } = read_json(&body)?;
        check_text("reason", &reason)?;
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &type_name)?;
        match app.engine.codes.void(&live, &code, caller.key_id(), &reason).await? {
            Scan::Unknown(_) => Err(unknown_code()),
            known @ Scan::Known { .. } => {
                Ok(JsonBody::ok(&VerdictBody::new(known, Seen::NotCounted)))
            }
        }
    })
    .await
}
