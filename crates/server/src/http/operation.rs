//! `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::problem::Problem;
use super::request::{JsonBody, as_caller};

/// Where the service stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusBody {
    /// `ok`.
    status: &'static str,
}

/// Is the process alive?
#[utoipa::path(get, path = "/livez", tag = "Operation", responses((status = 200, body = StatusBody)))]
pub(crate) async fn livez() -> Response {
    JsonBody::ok(&StatusBody { status: "ok" }).into_response()
}

/// Can it issue IDs?
///
/// Asks the store to write. The answer is 503 while pools that instances share are filled for the
/// first time and while the server shuts down, so that load balancers look elsewhere.
#[utoipa::path(get, path = "/readyz", tag = "Operation",
    responses((status = 200, body = StatusBody), (status = 503, body = Problem)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Response {
    if app.shutting_down() {
        return Problem::unavailable("The server is shutting down.").into_response();
    }
    match app.check().await {
        Ok(()) if !app.engine.issuer.is_warm() => {
            Problem::unavailable("The pools are being filled for the first time.").into_response()
        }
        Ok(()) => JsonBody::ok(&StatusBody { status: "ok" }).into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

/// Metrics for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "Operation",
    responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
pub(crate) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        caller.require_all_tenants()?;
        let pools = app.engine.issuer.pools(None).await?;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let kind = HeaderValue::from_static(kind);
        Ok(([(header::CONTENT_TYPE, kind)], app.metrics.encode(pools, app.engine.readings())))
    })
    .await
}
