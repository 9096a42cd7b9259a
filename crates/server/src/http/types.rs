//! `/api/v1/types`: ID types.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::LiveType;
use engine::catalogue::Put;
use idgen::spec::IdType;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{Removal, Scope};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, read_json};

/// An ID type.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TypeBody {
    /// The specification: `tenant`, `name`, and one of `sequence`, `random` and `snowflake`.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    id_type: IdType,
    /// `active` or `retired`.
    #[schema(value_type = String)]
    state: storage::TypeState,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: jiff::Timestamp,
}

impl TypeBody {
    fn new(live: &LiveType) -> Self {
        let stored = live.stored();
        Self { id_type: stored.id_type.clone(), state: stored.state, created_at: stored.created_at }
    }
}

/// A page of ID types.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TypesBody {
    /// The types, by tenant and name.
    types: Vec<TypeBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Which tenant a call is about.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TenantQuery {
    /// The tenant; the key's own, or `default`, where it is left out.
    pub(crate) tenant: Option<String>,
}

/// List ID types
#[utoipa::path(get, path = "/api/v1/types", tag = "ID types", params(TenantQuery, PageQuery),
    responses((status = 200, body = TypesBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(tenant): Query<TenantQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant_to_list(tenant.tenant.as_deref())?;
        let mut types = app.engine.catalogue.all();
        types.retain(|live| tenant.as_deref().is_none_or(|t| live.stored().id_type.tenant() == t));
        let (types, next) = page.cut(types, |live| {
            format!("{}/{}", live.stored().id_type.tenant(), live.stored().id_type.name())
        })?;
        let types = types.iter().map(|live| TypeBody::new(live)).collect();
        Ok(JsonBody::ok(&TypesBody { types, next }))
    })
    .await
}

/// Show an ID type
#[utoipa::path(get, path = "/api/v1/types/{name}", tag = "ID types", params(TenantQuery),
    responses((status = 200, body = TypeBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &name)?;
        Ok(JsonBody::ok(&TypeBody::new(&live)))
    })
    .await
}

/// Create or change an ID type
///
/// The body is the specification without `tenant` and `name`, or with the same ones. Once IDs were
/// issued, settings that would make them unreadable or repeat them are fixed.
#[utoipa::path(put, path = "/api/v1/types/{name}", tag = "ID types", params(TenantQuery),
    request_body(content = Object, example = json!({"random": {"alphabet": "crockford32", "length": 16, "check": "iso7064", "group": 4}})),
    responses((status = 200, body = TypeBody, description = "Changed, or the same as before"),
        (status = 201, body = TypeBody), (status = 409, body = Problem), (status = 422, body = Problem)))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let mut spec: Value = read_json(&body)?;
        let Some(fields) = spec.as_object_mut() else {
            return Err(Problem::invalid("The body must be an object that describes the ID type."));
        };
        let asked = match fields.get("tenant") {
            None => tenant.tenant.clone(),
            Some(in_body) => Some(in_body.as_str().unwrap_or_default().to_owned()),
        };
        let tenant = caller.tenant(asked.as_deref())?.into_owned();
        fields.insert("tenant".to_owned(), tenant.clone().into());
        match fields.insert("name".to_owned(), name.clone().into()) {
            Some(in_body) if in_body != Value::String(name.clone()) => {
                return Err(Problem::invalid("The name in the body is not the one in the path."));
            }
            _ => {}
        }
        let id_type = IdType::from_value(spec).map_err(engine::error::AdminError::from)?;
        let status = match app.engine.put_type(id_type).await? {
            Put::Created => StatusCode::CREATED,
            Put::Kept => StatusCode::OK,
        };
        let live = app.engine.catalogue.find(&tenant, &name)?;
        Ok(JsonBody::new(status, &TypeBody::new(&live)))
    })
    .await
}

/// What became of a type that was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedBody {
    /// `deleted`, or `retired` if it has issued IDs.
    outcome: &'static str,
}

/// Delete an ID type
///
/// A type that has issued IDs is retired instead: it issues no more, its IDs can still be
/// validated, and its counter is kept for ever.
#[utoipa::path(delete, path = "/api/v1/types/{name}", tag = "ID types", params(TenantQuery),
    responses((status = 200, body = RemovedBody), (status = 404, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let outcome = match app.engine.remove_type(tenant.into_owned(), name.clone()).await? {
            Removal::Deleted => "deleted",
            Removal::Retired => "retired",
        };
        Ok(JsonBody::ok(&RemovedBody { outcome }))
    })
    .await
}
