//! `/api/v1/tenants`: enterprises or projects.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::catalogue::Put;
use serde::{Deserialize, Serialize};
use storage::{Scope, Tenant, TenantLimits};
use utoipa::ToSchema;

use super::App;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, read_json};

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantBody {
    /// Its name.
    name: String,
    /// Requests per second that its keys may make together; null is no limit.
    requests_per_second: Option<u32>,
    /// Batches that may be under way at once; null is what the server allows everybody.
    active_batches_max: Option<u32>,
    /// Codes that it may order in all; null is what the server allows everybody.
    codes_max: Option<u64>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: jiff::Timestamp,
}

impl From<Tenant> for TenantBody {
    fn from(tenant: Tenant) -> Self {
        let Tenant { name, limits, created_at } = tenant;
        let TenantLimits { requests_per_second, active_batches_max, codes_max } = limits;
        Self { name, requests_per_second, active_batches_max, codes_max, created_at }
    }
}

/// A page of tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantsBody {
    /// The tenants, by name.
    tenants: Vec<TenantBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Settings of a tenant.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantSettings {
    /// Requests per second that its keys may make together; no limit where it is left out.
    #[serde(default)]
    requests_per_second: Option<u32>,
    /// Batches that may be under way at once; what the server allows everybody where it is left out.
    #[serde(default)]
    active_batches_max: Option<u32>,
    /// Codes that it may order in all, without those that were cancelled or abandoned; what the server
    /// allows everybody where it is left out.
    #[serde(default)]
    codes_max: Option<u64>,
}

impl TenantSettings {
    fn limits(&self) -> Result<TenantLimits, Problem> {
        let Self { requests_per_second, active_batches_max, codes_max } = *self;
        if requests_per_second == Some(0) {
            return Err(Problem::invalid(
                "requests_per_second: 0 would shut the tenant out; leave it out for no limit.",
            ));
        }
        if codes_max.is_some_and(|codes| i64::try_from(codes).is_err()) {
            return Err(Problem::invalid(format!("codes_max: use 0 to {}.", i64::MAX)));
        }
        Ok(TenantLimits { requests_per_second, active_batches_max, codes_max })
    }
}

/// List tenants
#[utoipa::path(get, path = "/api/v1/tenants", tag = "Tenants", params(PageQuery),
    responses((status = 200, body = TenantsBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let mut tenants = app.engine.catalogue.tenants();
        tenants.retain(|tenant| caller.bound_to().is_none_or(|own| own == tenant.name));
        let (tenants, next) = page.cut(tenants, |tenant| tenant.name.clone())?;
        let tenants = tenants.into_iter().map(TenantBody::from).collect();
        Ok(JsonBody::ok(&TenantsBody { tenants, next }))
    })
    .await
}

/// Show a tenant
#[utoipa::path(get, path = "/api/v1/tenants/{name}", tag = "Tenants",
    responses((status = 200, body = TenantBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let name = caller.tenant(Some(&name))?;
        let tenant = app.engine.catalogue.tenant(&name);
        Ok(JsonBody::ok(&TenantBody::from(tenant.ok_or_else(|| Problem::not_found("tenant"))?)))
    })
    .await
}

/// Create or change a tenant
#[utoipa::path(put, path = "/api/v1/tenants/{name}", tag = "Tenants", request_body = TenantSettings,
    responses((status = 200, body = TenantBody), (status = 201, body = TenantBody),
        (status = 422, body = Problem)))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        caller.require_all_tenants()?;
        let settings: TenantSettings =
            if body.is_empty() { TenantSettings::default() } else { read_json(&body)? };
        let status = match app.engine.put_tenant(name.clone(), settings.limits()?).await? {
            Put::Created => StatusCode::CREATED,
            Put::Kept => StatusCode::OK,
        };
        let tenant = app.engine.catalogue.tenant(&name);
        let tenant = tenant.ok_or_else(|| Problem::not_found("tenant"))?;
        Ok(JsonBody::new(status, &TenantBody::from(tenant)))
    })
    .await
}

/// Delete a tenant
///
/// Only a tenant without ID types, retired ones included, and without webhooks can be deleted.
#[utoipa::path(delete, path = "/api/v1/tenants/{name}", tag = "Tenants",
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        caller.require_all_tenants()?;
        app.engine.remove_tenant(name.clone()).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
