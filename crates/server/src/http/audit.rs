//! `GET /api/v1/audit`: who has done what.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::keys::LiveKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{Deed, DeedFilter, Scope};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::Query;
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller};

/// Something that was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeedBody {
    id: String,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    tenant: String,
    /// The public part of the API key; null where the server ran open.
    key: Option<String>,
    /// What people call the key.
    key_name: Option<String>,
    #[schema(example = "batch.downloaded")]
    action: String,
    /// What it was done to, such as the number of a batch.
    subject: String,
    #[schema(value_type = Object)]
    detail: Value,
}

impl DeedBody {
    fn new(id: i64, deed: Deed, keys: &[Arc<LiveKey>]) -> Self {
        let key = keys.iter().find(|key| key.stored().id == deed.key_id);
        Self {
            id: id.to_string(),
            at: deed.at,
            tenant: deed.tenant,
            key: key.map(|key| key.stored().key.short.clone()),
            key_name: key.map(|key| key.stored().key.name.clone()),
            action: deed.action,
            subject: deed.subject,
            detail: serde_json::from_str(&deed.detail).unwrap_or(Value::Null),
        }
    }
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditBody {
    /// The latest first.
    deeds: Vec<DeedBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Which part of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// The tenant; all that the key may see where it is left out.
    tenant: Option<String>,
    /// Only this, such as `batch.downloaded`.
    action: Option<String>,
    /// Only what was done to this, such as the number of a batch.
    subject: Option<String>,
}

/// Show the audit log
///
/// Every download of codes is in it, on record before the first byte is sent.
#[utoipa::path(get, path = "/api/v1/audit", tag = "Audit", params(AuditQuery, PageQuery),
    responses((status = 200, body = AuditBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<AuditQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
        let limit = page.limit()?;
        let wrong = |_| Problem::invalid("after must be the next of the page before.");
        let filter = DeedFilter {
            tenant: tenant.map(std::borrow::Cow::into_owned),
            action: query.action,
            subject: query.subject,
            before: page.after.as_deref().map(str::parse).transpose().map_err(wrong)?,
            limit: limit + 1,
        };
        let mut found = app.engine.audit.list(&filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(id, _)| id.to_string());
        let keys = app.engine.keys.all();
        let deeds = found.into_iter().map(|(id, deed)| DeedBody::new(id, deed, &keys)).collect();
        Ok(JsonBody::ok(&AuditBody { deeds, next }))
    })
    .await
}
