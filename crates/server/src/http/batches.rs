//! `/api/v1/batches`: order codes, follow, cancel, recall.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use engine::LiveType;
use engine::batches::BatchRequest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{Batch, BatchFilter, BatchId, BatchState, Ledger, Scope, Void};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::auth::Caller;
use super::extract::{Body, Path, Query};
use super::pace::Pace;
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{
    JsonBody, as_caller, idempotency_key, once, post_once, read_json, read_number,
};

/// The longest name and reason, in characters, and the largest metadata, in bytes.
const TEXT_CHARS_MAX: usize = 200;
const METADATA_BYTES_MAX: usize = 16 << 10;

/// The most webhooks that an order names: each of them is a delivery at every change of state.
const NOTIFY_MAX: usize = 16;

/// An order for codes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderBody {
    /// Whose ID type; the key's tenant, or `default`, where it is left out.
    #[serde(default)]
    tenant: Option<String>,
    /// The ID type. It must be a random one without filters.
    #[serde(rename = "type")]
    #[schema(example = "bottle")]
    type_name: String,
    /// How many codes, from 1 to 1,000,000,000.
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    count: u64,
    /// A name for people.
    #[serde(default)]
    name: Option<String>,
    /// Anything to keep with the batch, an object of at most 16 KiB.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// The names of the webhooks to tell when it is completed, cancelled or needs attention, at most 16;
    /// all of the tenant's where it is left out, none for an empty list. One that is named twice is told
    /// once.
    #[serde(default)]
    #[schema(max_items = 16)]
    notify: Option<Vec<String>>,
}

/// A batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchBody {
    /// Its number, a snowflake.
    id: String,
    tenant: String,
    #[serde(rename = "type")]
    type_name: String,
    name: Option<String>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// The webhooks that are told; null is all of the tenant's.
    notify: Option<Vec<String>>,
    /// `queued`, `running`, `completed`, `needs_attention` or `cancelled`.
    #[schema(value_type = String)]
    state: BatchState,
    /// Codes that are made.
    made: u64,
    /// Codes that were ordered.
    total: u64,
    /// Codes of chunks that were given up.
    abandoned: u64,
    /// Chunks that are dead letters.
    dead_letters: u64,
    /// Codes made per second, over the time in which there was something to make; null before that, and
    /// while nothing but dead letters is left.
    rate: Option<f64>,
    /// Seconds until all but those of dead letters are made, at this rate; null where nothing is being made.
    eta_seconds: Option<f64>,
    /// The last error of a chunk.
    error: Option<String>,
    /// `stored` or `derived`.
    #[schema(value_type = String)]
    ledger: Ledger,
    first_serial: String,
    last_serial: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    finished_at: Option<Timestamp>,
    /// That its codes are void, and why.
    recalled: Option<VoidBody>,
}

/// That and why something is no longer genuine.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VoidBody {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    reason: String,
}

impl From<Void> for VoidBody {
    fn from(Void { at, reason }: Void) -> Self {
        Self { at, reason }
    }
}

impl BatchBody {
    pub(super) fn new(batch: Batch, live: &LiveType, now: Timestamp) -> Self {
        let Pace { rate, eta_seconds } = Pace::of(&batch, now);
        let id_type = &live.stored().id_type;
        Self {
            id: batch.id.0.to_string(),
            tenant: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            total: batch.count(),
            first_serial: batch.serials.start.to_string(),
            last_serial: batch.serials.end.saturating_sub(1).to_string(),
            name: batch.name,
            metadata: batch.metadata.and_then(|text| serde_json::from_str(&text).ok()),
            notify: batch.notify.and_then(|text| serde_json::from_str(&text).ok()),
            state: batch.state,
            made: batch.made,
            abandoned: batch.abandoned,
            dead_letters: batch.dead_chunks,
            rate,
            eta_seconds,
            error: batch.error,
            ledger: batch.ledger,
            created_at: batch.created_at,
            started_at: batch.started_at,
            finished_at: batch.finished_at,
            recalled: batch.recalled.map(VoidBody::from),
        }
    }
}

/// A page of batches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchesBody {
    /// The latest first.
    batches: Vec<BatchBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Which batches.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BatchesQuery {
    /// The tenant; all that the key may see where it is left out.
    tenant: Option<String>,
    /// Only of this ID type.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// Only in this state.
    #[param(value_type = Option<String>)]
    state: Option<BatchState>,
}

/// Order codes
///
/// Answers as soon as the order is on record; the codes are made in the background. The same
/// `Idempotency-Key` with the same body gives the same batch again, however much later; another order
/// with it is refused.
#[utoipa::path(
    post,
    path = "/api/v1/batches",
    tag = "Batches",
    request_body = OrderBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 202, body = BatchBody, headers(("Location" = String, description = "The batch"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "Beyond the space, too dense, or over a limit of the tenant"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "Invalid count or type, or an idempotency key of another order"),
    )
)]
pub(crate) async fn order(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let work = {
            let (app, caller, body) = (Arc::clone(&app), caller.clone(), body.clone());
            let key = idempotency_key(&headers)?.map(|key| format!("{} {key}", caller.scope()));
            async move { order_for(&app, &caller, &body, key).await }
        };
        let mut response = once(&app, &headers, caller, "batch", body, work).await?;
        if let Some(location) = location(&mut response).await {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    })
    .await
}

/// Where the batch of an answer is. Read back from the answer, which may be a repeated one.
async fn location(response: &mut Response) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct Ordered {
        id: String,
    }
    let body = std::mem::take(response.body_mut());
    let bytes = axum::body::to_bytes(body, usize::MAX).await.ok()?;
    let ordered = serde_json::from_slice::<Ordered>(&bytes).ok();
    *response.body_mut() = bytes.into();
    HeaderValue::from_str(&format!("/api/v1/batches/{}", ordered?.id)).ok()
}

async fn order_for(
    app: &App,
    caller: &Caller,
    body: &[u8],
    order_key: Option<String>,
) -> Result<JsonBody, Problem> {
    let order: OrderBody = read_json(body)?;
    let tenant = caller.tenant(order.tenant.as_deref())?;
    if let Some(name) = &order.name {
        check_text("name", name)?;
    }
    let metadata = order.metadata.filter(|value| !value.is_null());
    if metadata.as_ref().is_some_and(|value| !value.is_object()) {
        return Err(Problem::invalid("metadata must be an object."));
    }
    let metadata = metadata.map(|value| value.to_string());
    if metadata.as_ref().is_some_and(|text| text.len() > METADATA_BYTES_MAX) {
        return Err(Problem::invalid(format!("metadata may have {METADATA_BYTES_MAX} bytes.")));
    }
    let notify = order.notify.map(|names| webhooks(app, &tenant, names)).transpose()?;
    let request = BatchRequest {
        tenant: &tenant,
        type_name: &order.type_name,
        count: order.count,
        name: order.name,
        metadata,
        notify,
        key_id: caller.key_id(),
        order_key,
    };
    let (batch, live) = app.engine.batches.order(request).await?;
    let body = BatchBody::new(batch, &live, app.clock.now());
    Ok(JsonBody::new(StatusCode::ACCEPTED, &body))
}

/// The webhooks to tell, each once.
fn webhooks(app: &App, tenant: &str, names: Vec<String>) -> Result<Vec<String>, Problem> {
    if names.len() > NOTIFY_MAX {
        return Err(Problem::invalid(format!("notify may name {NOTIFY_MAX} webhooks.")));
    }
    let mut told = Vec::with_capacity(names.len());
    for name in names {
        app.engine.webhooks.find(tenant, &name).map_err(|_| {
            Problem::invalid(format!("notify: the tenant has no webhook {name:?}."))
        })?;
        if !told.contains(&name) {
            told.push(name);
        }
    }
    Ok(told)
}

/// Checks a text for people.
pub(super) fn check_text(field: &str, text: &str) -> Result<(), Problem> {
    let usable = !text.trim().is_empty()
        && text.chars().count() <= TEXT_CHARS_MAX
        && !text.chars().any(char::is_control);
    usable.then_some(()).ok_or_else(|| {
        Problem::invalid(format!(
            "{field} must have 1 to {TEXT_CHARS_MAX} characters and none that cannot be shown."
        ))
    })
}

/// List batches
#[utoipa::path(get, path = "/api/v1/batches", tag = "Batches", params(BatchesQuery, PageQuery),
    responses((status = 200, body = BatchesBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<BatchesQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
        let limit = page.limit()?;
        let before = page.after.as_deref().map(read_cursor).transpose()?;
        // One more, to know whether there is another page.
        let filter = BatchFilter { types: None, state: query.state, before, limit: limit + 1 };
        let batches = &app.engine.batches;
        let mut found = batches.list(tenant.as_deref(), query.type_name.as_deref(), filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(batch, _)| batch.id.0.to_string());
        let now = app.clock.now();
        let batches = found.into_iter().map(|(batch, live)| BatchBody::new(batch, &live, now));
        Ok(JsonBody::ok(&BatchesBody { batches: batches.collect(), next }))
    })
    .await
}

/// Show a batch
#[utoipa::path(get, path = "/api/v1/batches/{id}", tag = "Batches",
    responses((status = 200, body = BatchBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let (batch, live) = app.engine.batches.find(read_id(&id)?, caller.bound_to()).await?;
        Ok(JsonBody::ok(&BatchBody::new(batch, &live, app.clock.now())))
    })
    .await
}

/// What becomes of the codes that are made already.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelBody {
    /// Given: they are made void with this reason. Left out: they are kept.
    #[serde(default)]
    void_reason: Option<String>,
}

/// Cancel a batch
///
/// No more codes are made. The serials of those that were not made are gaps with reason
/// `batch_cancelled`.
#[utoipa::path(post, path = "/api/v1/batches/{id}/cancel", tag = "Batches", request_body = CancelBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = BatchBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It is complete already")))]
pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(body): Body,
) -> Response {
    let about = id.clone();
    post_once(
        &app,
        &headers,
        Scope::Batch,
        "cancel",
        &about,
        body,
        |app, caller, body| async move {
            let body: CancelBody =
                if body.is_empty() { CancelBody::default() } else { read_json(&body)? };
            if let Some(reason) = &body.void_reason {
                check_text("void_reason", reason)?;
            }
            let (id, reason) = (read_id(&id)?, body.void_reason.as_deref());
            let (tenant, key_id) = (caller.bound_to(), caller.key_id());
            let (batch, live) = app.engine.batches.cancel(id, tenant, key_id, reason).await?;
            Ok(JsonBody::ok(&BatchBody::new(batch, &live, app.clock.now())))
        },
    )
    .await
}

/// Why something is made void.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonBody {
    /// The reason, which a scan shows.
    pub(super) reason: String,
}

/// Recall a batch
///
/// Every code of it is void from the next scan on. The first recall stays.
#[utoipa::path(post, path = "/api/v1/batches/{id}/recall", tag = "Batches", request_body = ReasonBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = BatchBody), (status = 404, body = Problem)))]
pub(crate) async fn recall(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(body): Body,
) -> Response {
    let about = id.clone();
    post_once(
        &app,
        &headers,
        Scope::Batch,
        "recall",
        &about,
        body,
        |app, caller, body| async move {
            let ReasonBody { reason } = read_json(&body)?;
            check_text("reason", &reason)?;
            let (id, tenant, key_id) = (read_id(&id)?, caller.bound_to(), caller.key_id());
            let (batch, live) = app.engine.batches.recall(id, tenant, key_id, &reason).await?;
            Ok(JsonBody::ok(&BatchBody::new(batch, &live, app.clock.now())))
        },
    )
    .await
}

fn read_cursor(text: &str) -> Result<BatchId, Problem> {
    read_id(text).map_err(|_| Problem::invalid("after must be the next of the page before."))
}

/// Reads the number of a batch.
pub(super) fn read_id(text: &str) -> Result<BatchId, Problem> {
    read_number(text, "batch").map(BatchId)
}
