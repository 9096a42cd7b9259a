//! The OpenAPI document. It is made from the handlers, so it cannot differ from them.

use std::sync::Arc;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    App, audit, batch_events, batch_file, batches, code_scans, dead_letters, deliveries, documents,
    gaps, history, ids, issuances, keys, operation, pools, public, reservations, scans, sinks,
    symbols, tenants, types, webhooks,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Mintage",
        description = "Issues business numbers, unguessable IDs and bulk codes, and accounts for \
            every one of them. Errors are problem documents (RFC 9457) with a stable `code`. IDs \
            are always strings.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
    ),
    security(("key" = [])),
    modifiers(&KeyScheme),
)]
struct Document;

struct KeyScheme;

impl utoipa::Modify for KeyScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key: `mtg_<short>_<secret>`. Not needed on a server that runs open.",
            ))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// The routes of those who watch over the process.
pub(super) fn operation_router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(operation::livez))
        .routes(routes!(operation::readyz))
        .routes(routes!(operation::metrics))
}

/// The native routes with their documentation.
pub(super) fn router() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(ids::issue))
        .routes(routes!(ids::validate))
        .routes(routes!(issuances::find))
        .routes(routes!(batches::list, batches::order))
        .routes(routes!(batches::get))
        .routes(routes!(batches::cancel))
        .routes(routes!(batches::recall))
        .routes(routes!(batch_events::events))
        .routes(routes!(batch_file::codes))
        .routes(routes!(batch_file::manifest))
        .routes(routes!(scans::scan))
        .routes(routes!(scans::get))
        .routes(routes!(scans::void))
        .routes(routes!(code_scans::list))
        .routes(routes!(public::view, public::verify))
        .routes(routes!(public::view_of_tenant, public::verify_of_tenant))
        .routes(routes!(symbols::qr))
        .routes(routes!(symbols::data_matrix))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::retry))
        .routes(routes!(dead_letters::abandon))
        .routes(routes!(documents::list, documents::assign))
        .routes(routes!(documents::get))
        .routes(routes!(reservations::create))
        .routes(routes!(reservations::get))
        .routes(routes!(reservations::confirm))
        .routes(routes!(reservations::release))
        .routes(routes!(gaps::list))
        .routes(routes!(gaps::sign_off))
        .routes(routes!(history::show))
        .routes(routes!(sinks::list))
        .routes(routes!(sinks::get, sinks::put, sinks::delete))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::get, webhooks::put, webhooks::delete))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(webhooks::test))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::get))
        .routes(routes!(deliveries::replay))
        .routes(routes!(deliveries::abandon))
        .routes(routes!(types::list))
        .routes(routes!(types::get, types::put, types::delete))
        .routes(routes!(tenants::list))
        .routes(routes!(tenants::get, tenants::put, tenants::delete))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(audit::list))
        .routes(routes!(pools::list))
        .merge(operation_router())
}

/// Every path that has a name in the metrics.
pub(super) fn routes() -> Vec<String> {
    let openg2p =
        ["health", "version", "config", "{id_type}/id", "{id_type}/id/validate/{id_value}"];
    router()
        .to_openapi()
        .paths
        .paths
        .into_keys()
        .chain(openg2p.map(|path| format!("/v1/idgenerator/{path}")))
        .collect()
}

/// The document as it is committed and served.
pub(crate) fn document() -> String {
    let document = router().to_openapi();
    document.to_pretty_json().expect("the document is plain data") + "\n"
}

pub(super) async fn serve() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], document()).into_response()
}
