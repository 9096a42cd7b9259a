//! `/api/v1/keys`: API keys.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::keys::{KeyOrder, LiveKey};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, read_json, refuse_idempotency_key};

/// An API key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyBody {
    /// The public part, by which it is named.
    key: String,
    /// What people call it.
    name: String,
    /// Whose it is; null is for every tenant.
    tenant: Option<String>,
    /// What it may do.
    #[schema(value_type = Vec<String>, example = json!(["issue"]))]
    scopes: Vec<Scope>,
    /// Requests per second; null is the server's default.
    requests_per_second: Option<u32>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it stops working by itself.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// When it was revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl KeyBody {
    pub(crate) fn new(live: &LiveKey) -> Self {
        let stored = live.stored();
        let key = stored.key.clone();
        Self {
            key: key.short,
            name: key.name,
            tenant: key.tenant,
            scopes: key.scopes,
            requests_per_second: key.requests_per_second,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: stored.revoked_at,
        }
    }
}

/// A new key, with its secret: the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewKeyBody {
    /// The whole key, to be sent as `Authorization: Bearer …`.
    #[schema(example = "mtg_4k2m9x7q_…")]
    token: String,
    /// The rest.
    #[serde(flatten)]
    key: KeyBody,
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeysBody {
    /// The keys, revoked ones included, oldest first.
    keys: Vec<KeyBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// An order for a key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyOrderBody {
    /// What people call it.
    name: String,
    /// Whose it is; a key for every tenant where it is left out.
    #[serde(default)]
    tenant: Option<String>,
    /// What it may do: `issue`, `batch`, `scan`, `admin`.
    #[schema(value_type = Vec<String>)]
    scopes: Vec<Scope>,
    /// Requests per second.
    #[serde(default)]
    requests_per_second: Option<u32>,
    /// When it stops working by itself.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

/// List API keys
#[utoipa::path(get, path = "/api/v1/keys", tag = "API keys", params(PageQuery),
    responses((status = 200, body = KeysBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let mut keys = app.engine.keys.all();
        keys.retain(|key| {
            caller.bound_to().is_none_or(|own| key.stored().key.tenant.as_deref() == Some(own))
        });
        let (keys, next) = page.cut(keys, |key| format!("{:020}", key.stored().id))?;
        let keys = keys.iter().map(|key| KeyBody::new(key)).collect();
        Ok(JsonBody::ok(&KeysBody { keys, next }))
    })
    .await
}

/// Create an API key
///
/// The token is in the answer and nowhere else. An answer to a repeated request would have to
/// store it, so an `Idempotency-Key` is refused.
#[utoipa::path(post, path = "/api/v1/keys", tag = "API keys", request_body = KeyOrderBody,
    responses((status = 201, body = NewKeyBody), (status = 422, body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        refuse_idempotency_key(&headers)?;
        let order: KeyOrderBody = read_json(&body)?;
        if !app.engine.keys.any() && !order.scopes.contains(&Scope::Admin) {
            let detail = "The first key must have the scope admin: from then on keys are needed.";
            return Err(Problem::invalid(detail));
        }
        let tenant = match caller.bound_to() {
            None => order.tenant,
            Some(_) => Some(caller.tenant(order.tenant.as_deref())?.into_owned()),
        };
        let (live, token) = app
            .engine
            .create_key(KeyOrder {
                name: order.name,
                tenant,
                scopes: order.scopes,
                requests_per_second: order.requests_per_second,
                expires_at: order.expires_at,
            })
            .await?;
        let body = NewKeyBody { token, key: KeyBody::new(&live) };
        Ok(JsonBody::new(StatusCode::CREATED, &body))
    })
    .await
}

/// Revoke an API key
///
/// It stops working at once and for ever. Revoking it again changes nothing.
#[utoipa::path(delete, path = "/api/v1/keys/{key}", tag = "API keys",
    responses((status = 200, body = KeyBody), (status = 404, body = Problem)))]
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(short): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let find = || {
            let keys = app.engine.keys.all();
            keys.into_iter().find(|key| {
                let key = &key.stored().key;
                let visible =
                    caller.bound_to().is_none_or(|own| key.tenant.as_deref() == Some(own));
                key.short == short && visible
            })
        };
        find().ok_or_else(|| Problem::not_found("API key"))?;
        app.engine.revoke_key(short.clone()).await?;
        let live = find().ok_or_else(|| Problem::not_found("API key"))?;
        Ok(JsonBody::ok(&KeyBody::new(&live)))
    })
    .await
}
