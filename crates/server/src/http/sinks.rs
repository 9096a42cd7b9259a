//! `/api/v1/sinks`: where documents are delivered.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::catalogue::Put;
use engine::documents::{Place, SinkOrder};
use engine::outbox::{BucketPlace, LiveReceiver};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, read_json};
use super::types::TenantQuery;

/// A sink, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SinkBody {
    name: String,
    tenant: String,
    /// Files in this directory, below the one that the server's configuration names.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// Requests to this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Objects in this bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<BucketBody>,
    /// The ID types whose documents it takes; null is those that no other sink takes.
    types: Option<Vec<String>>,
    /// Whether the documents of a type arrive in order.
    ordered: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl SinkBody {
    fn new(sink: &LiveReceiver) -> Result<Self, Problem> {
        let (place, types, ordered) = sink.sink().ok_or_else(|| Problem::not_found("sink"))?;
        let (directory, url, bucket) = match place.clone() {
            Place::Directory { path } => (Some(path), None, None),
            Place::Http { url } => (None, Some(url), None),
            Place::Bucket(bucket) => (None, None, Some(BucketBody::from(bucket))),
        };
        Ok(Self {
            name: sink.name().to_owned(),
            tenant: sink.tenant().to_owned(),
            directory,
            url,
            bucket,
            types: types.map(<[String]>::to_vec),
            ordered,
            created_at: sink.stored().created_at,
        })
    }
}

/// A bucket of an S3-compatible store.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BucketBody {
    /// The address of the store.
    #[schema(example = "https://s3.eu-north-1.amazonaws.com")]
    endpoint: String,
    /// The name of the bucket.
    name: String,
    /// Its region.
    #[serde(default = "default_region")]
    region: String,
    /// What the names of objects begin with. A document becomes the object `prefix` + `type/ID.json`.
    #[serde(default)]
    #[schema(example = "invoices/")]
    prefix: String,
    /// Who asks for access.
    access_key_id: String,
    /// The secret that belongs to it. It is never shown; where it is left out, the one that is known
    /// stays.
    #[serde(default, skip_serializing)]
    #[schema(write_only)]
    secret_access_key: Option<Hidden>,
    /// Whether the bucket is named in the host, and not in the path.
    #[serde(default)]
    virtual_host: bool,
}

/// Text that does not show up in logs.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

impl From<BucketPlace> for BucketBody {
    fn from(place: BucketPlace) -> Self {
        let BucketPlace { endpoint, name, region, prefix, access_key_id, virtual_host } = place;
        let secret_access_key = None;
        Self { endpoint, name, region, prefix, access_key_id, secret_access_key, virtual_host }
    }
}

impl BucketBody {
    fn into_place(self) -> (Place, Option<String>) {
        let Self { endpoint, name, region, prefix, access_key_id, virtual_host, .. } = self;
        let place = BucketPlace { endpoint, name, region, prefix, access_key_id, virtual_host };
        (Place::Bucket(place), self.secret_access_key.map(|hidden| hidden.0))
    }
}

/// A sink with its secret, if that is new: the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewSinkBody {
    /// What the requests are signed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_…")]
    secret: Option<String>,
    #[serde(flatten)]
    sink: SinkBody,
}

/// A page of sinks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SinksBody {
    /// By tenant and name.
    sinks: Vec<SinkBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Settings of a sink: a directory, an address or a bucket.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SinkSettings {
    /// Whose it is; the key's tenant, or `default`, where it is left out.
    #[serde(default)]
    tenant: Option<String>,
    /// A directory of the tenant's. A document becomes the file `tenant/directory/type/ID.json` below
    /// `outbound.directory` of the server's configuration.
    #[serde(default)]
    #[schema(example = "invoices")]
    directory: Option<String>,
    /// An address that is sent each document, signed like a webhook, with the ID as `Idempotency-Key`.
    #[serde(default)]
    url: Option<String>,
    /// A bucket of an S3-compatible store that each document is put into.
    #[serde(default)]
    bucket: Option<BucketBody>,
    /// The ID types whose documents it takes; those that no other sink takes where it is left out.
    #[serde(default)]
    types: Option<Vec<String>>,
    /// Whether the documents of a type have to arrive in order. One that fails holds up those behind it.
    #[serde(default)]
    ordered: bool,
}

/// List sinks
#[utoipa::path(get, path = "/api/v1/sinks", tag = "Documents", params(TenantQuery, PageQuery),
    responses((status = 200, body = SinksBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(tenant): Query<TenantQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant_to_list(tenant.tenant.as_deref())?;
        let sinks = app.engine.documents.sinks.list(tenant.as_deref());
        // No name has a space, so this sorts as the list does.
        let cursor = |sink: &Arc<LiveReceiver>| format!("{} {}", sink.tenant(), sink.name());
        let (sinks, next) = page.cut(sinks, cursor)?;
        let sinks = sinks.iter().map(|sink| SinkBody::new(sink)).collect::<Result<_, _>>()?;
        Ok(JsonBody::ok(&SinksBody { sinks, next }))
    })
    .await
}

/// Show a sink
#[utoipa::path(get, path = "/api/v1/sinks/{name}", tag = "Documents", params(TenantQuery),
    responses((status = 200, body = SinkBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        Ok(JsonBody::ok(&SinkBody::new(&*app.engine.documents.sinks.find(&tenant, &name)?)?))
    })
    .await
}

/// Create or change a sink
///
/// The answer to a new one with an address has its secret, which is shown nowhere else.
#[utoipa::path(put, path = "/api/v1/sinks/{name}", tag = "Documents", request_body = SinkSettings,
    responses((status = 200, body = SinkBody), (status = 201, body = NewSinkBody),
        (status = 422, body = Problem)))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let SinkSettings { tenant, directory, url, bucket, types, ordered } = read_json(&body)?;
        let (place, bucket_secret) = match (directory, url, bucket) {
            (Some(path), None, None) => (Place::Directory { path }, None),
            (None, Some(url), None) => (Place::Http { url }, None),
            (None, None, Some(bucket)) => bucket.into_place(),
            _ => return Err(Problem::invalid("Give one of directory, url and bucket.")),
        };
        if types.as_ref().is_some_and(Vec::is_empty) {
            return Err(Problem::invalid(
                "types must name at least one type; leave it out for all.",
            ));
        }
        let tenant = caller.tenant(tenant.as_deref())?.into_owned();
        let name = name.clone();
        let order = SinkOrder { tenant, name, place, bucket_secret, types, ordered };
        let done = app.engine.put_sink(order).await?;
        let status = match done.put {
            Put::Created => StatusCode::CREATED,
            Put::Kept => StatusCode::OK,
        };
        let sink = SinkBody::new(&done.sink)?;
        Ok(JsonBody::new(status, &NewSinkBody { secret: done.secret, sink }))
    })
    .await
}

/// Delete a sink
///
/// Only one to which nothing has to be delivered any more.
#[utoipa::path(delete, path = "/api/v1/sinks/{name}", tag = "Documents", params(TenantQuery),
    responses((status = 204), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?.into_owned();
        app.engine.remove_sink(tenant, name.clone()).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}
