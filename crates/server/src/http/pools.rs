//! `GET /api/v1/pools`: what is ready, and how long the space lasts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::issuing::PoolReport;
use serde::Serialize;
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::extract::Query;
use super::paging::PageQuery;
use super::request::{JsonBody, as_caller};
use super::types::TenantQuery;

/// A pool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolBody {
    /// The tenant.
    tenant: String,
    /// The ID type.
    #[serde(rename = "type")]
    type_name: String,
    /// The counter within the type: a year, a month, a day, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    period: String,
    /// IDs that are ready.
    level: u64,
    /// IDs that a refill aims for.
    size: u64,
    /// The level at which it is refilled.
    watermark: u64,
    /// IDs per second that are taken at present.
    burn_rate: f64,
    /// IDs that are left, those in the pool included.
    valid_left: u64,
    /// Whether `valid_left` was counted, not estimated.
    exact: bool,
    /// Share of the space that is drawn, from 0 to 1.
    used_ratio: f64,
    /// Days until the space is used up at the present rate; null while nothing is taken.
    days_left: Option<f64>,
    /// Whether the space is used up.
    exhausted: bool,
}

impl From<PoolReport> for PoolBody {
    fn from(report: PoolReport) -> Self {
        Self {
            tenant: report.tenant,
            type_name: report.type_name,
            period: report.period,
            level: report.level,
            size: report.size,
            watermark: report.watermark,
            burn_rate: report.burn_per_second,
            valid_left: report.valid_left,
            exact: report.exact,
            used_ratio: report.used_ratio,
            days_left: report.days_left,
            exhausted: report.exhausted,
        }
    }
}

/// A page of pools.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolsBody {
    /// The pools, by tenant and type.
    pools: Vec<PoolBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// List pools
#[utoipa::path(get, path = "/api/v1/pools", tag = "Pools", params(TenantQuery, PageQuery),
    responses((status = 200, body = PoolsBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(tenant): Query<TenantQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant_to_list(tenant.tenant.as_deref())?;
        let reports = app.engine.issuer.pools(tenant.as_deref()).await?;
        let (reports, next) =
            page.cut(reports, |report| format!("{}/{}", report.tenant, report.type_name))?;
        let pools = reports.into_iter().map(PoolBody::from).collect();
        Ok(JsonBody::ok(&PoolsBody { pools, next }))
    })
    .await
}
