//! `GET /api/v1/codes/{type}/{code}/scans`: what came along with scans of a code.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::keys::LiveKey;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use storage::{KeptContext, Scope};
use utoipa::ToSchema;

use super::App;
use super::extract::{Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller};
use super::scans::unknown_code;
use super::types::TenantQuery;

/// A scan that something came along with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextBody {
    /// Which scan of the code it was, from 1.
    number: u64,
    #[schema(value_type = String, format = DateTime)]
    scanned_at: Timestamp,
    /// The public part of the API key; null where the server ran open.
    key: Option<String>,
    /// The further fields of the scan.
    #[schema(value_type = Object)]
    context: Option<Box<RawValue>>,
}

impl ContextBody {
    fn new(kept: KeptContext, keys: &[Arc<LiveKey>]) -> Self {
        let key = keys.iter().find(|key| key.stored().id == kept.context.key_id);
        Self {
            number: kept.number,
            scanned_at: kept.scanned_at,
            key: key.map(|key| key.stored().key.short.clone()),
            // It was checked before it was kept, and is given back as it is.
            context: RawValue::from_string(kept.context.json).ok(),
        }
    }
}

/// A page of scans.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CodeScansBody {
    /// The latest first.
    scans: Vec<ContextBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// List scans of a code
///
/// Only those that came with a context, which is what a scan has beside `tenant`, `type` and `code`, and
/// only for as long as that is kept. Scans by consumers have none.
#[utoipa::path(get, path = "/api/v1/codes/{type}/{code}/scans", tag = "Codes",
    params(TenantQuery, PageQuery),
    responses((status = 200, body = CodeScansBody),
        (status = 404, body = Problem, description = "No such type, or no such code")))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((type_name, code)): Path<(String, String)>,
    Query(tenant): Query<TenantQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Scan, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &type_name)?;
        let limit = page.limit()?;
        let wrong = |_| Problem::invalid("after must be the next of the page before.");
        let before = page.after.as_deref().map(str::parse).transpose().map_err(wrong)?;
        let before = before.unwrap_or(u64::MAX);
        // One more, to know whether there is another page.
        let found = app.engine.codes.contexts(&live, &code, before, limit + 1).await?;
        let mut found = found.ok_or_else(unknown_code)?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|kept| kept.number.to_string());
        let keys = app.engine.keys.all();
        let scans = found.into_iter().map(|kept| ContextBody::new(kept, &keys)).collect();
        Ok(JsonBody::ok(&CodeScansBody { scans, next }))
    })
    .await
}
