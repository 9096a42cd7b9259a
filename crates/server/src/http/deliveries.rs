//! `/api/v1/deliveries`: what webhooks were told, and how that went.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::outbox::LiveReceiver;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage::{Attempt, DeliveryFilter, DeliveryId, DeliveryRecord, DeliveryState, Scope, Verdict};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, post_once, read_number};
use super::types::TenantQuery;

/// A delivery.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveryBody {
    id: String,
    tenant: String,
    webhook: String,
    /// What the receiver can tell by that it has seen this before: the header `webhook-id`.
    webhook_id: String,
    #[schema(example = "batch.completed")]
    event: String,
    /// `pending`, `delivered`, `dead` or `abandoned`.
    #[schema(value_type = String)]
    state: DeliveryState,
    /// Attempts since it was put on record, or replayed.
    attempts: u32,
    /// The last attempt.
    last_attempt: Option<AttemptBody>,
    /// When the next attempt is due, at the latest. Only while it is pending.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    settled_at: Option<Timestamp>,
}

/// An attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AttemptBody {
    /// Which one, from 1.
    number: u32,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    milliseconds: u64,
    /// What the webhook answered.
    status: Option<u16>,
    /// Why it failed; null if it did not.
    error: Option<String>,
}

impl From<Attempt> for AttemptBody {
    fn from(Attempt { number, at, duration, status, error }: Attempt) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { number, at, milliseconds, status, error }
    }
}

impl DeliveryBody {
    fn new(record: DeliveryRecord, receiver: &LiveReceiver) -> Self {
        Self {
            id: record.id.0.to_string(),
            tenant: receiver.tenant().to_owned(),
            webhook: receiver.name().to_owned(),
            webhook_id: record.content.key,
            event: record.content.subject,
            state: record.state,
            attempts: record.attempts,
            last_attempt: record.last.map(AttemptBody::from),
            next_attempt_at: record.due_at,
            created_at: record.created_at,
            settled_at: record.settled_at,
        }
    }
}

/// A delivery with everything that is known about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FullDeliveryBody {
    #[serde(flatten)]
    delivery: DeliveryBody,
    /// Every attempt that failed, by time.
    failed_attempts: Vec<AttemptBody>,
    /// What was sent.
    #[schema(value_type = Object)]
    body: Value,
}

/// A page of deliveries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeliveriesBody {
    /// The latest first.
    deliveries: Vec<DeliveryBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveriesQuery {
    /// Only in this state.
    #[param(value_type = Option<String>)]
    state: Option<DeliveryState>,
}

/// List what a webhook was told
#[utoipa::path(get, path = "/api/v1/webhooks/{name}/deliveries", tag = "Webhooks",
    params(TenantQuery, DeliveriesQuery, PageQuery),
    responses((status = 200, body = DeliveriesBody), (status = 404, body = Problem)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
    Query(query): Query<DeliveriesQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let webhook = app.engine.webhooks.find(&tenant, &name)?;
        let limit = page.limit()?;
        let before = page
            .after
            .as_deref()
            .map(read_id)
            .transpose()
            .map_err(|_| Problem::invalid("after must be the next of the page before."))?;
        let filter = DeliveryFilter {
            tenant: tenant.into_owned(),
            receiver: webhook.id(),
            state: query.state,
            before,
            limit: limit + 1,
        };
        let mut found = app.engine.outbox.deliveries(&filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|record| record.id.0.to_string());
        let deliveries = found.into_iter().map(|record| DeliveryBody::new(record, &webhook));
        Ok(JsonBody::ok(&DeliveriesBody { deliveries: deliveries.collect(), next }))
    })
    .await
}

/// Show a delivery
#[utoipa::path(get, path = "/api/v1/deliveries/{id}", tag = "Webhooks",
    responses((status = 200, body = FullDeliveryBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        Ok(JsonBody::ok(&read(&app, read_id(&id)?, caller.bound_to()).await?))
    })
    .await
}

/// Send a delivery again
///
/// At once, with all attempts and the same `webhook-id`, whether it has arrived or not. One that is
/// pending stays as it is.
#[utoipa::path(post, path = "/api/v1/deliveries/{id}/replay", tag = "Webhooks",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 202, body = FullDeliveryBody), (status = 404, body = Problem)))]
pub(crate) async fn replay(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(body): Body,
) -> Response {
    decide(&app, &headers, id, body, Verdict::Retry).await
}

/// Give a delivery up
///
/// Only one that is pending or dead.
#[utoipa::path(post, path = "/api/v1/deliveries/{id}/abandon", tag = "Webhooks",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 202, body = FullDeliveryBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It has arrived already")))]
pub(crate) async fn abandon(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(body): Body,
) -> Response {
    decide(&app, &headers, id, body, Verdict::Abandon).await
}

async fn decide(
    app: &Arc<App>,
    headers: &HeaderMap,
    id: String,
    body: axum::body::Bytes,
    verdict: Verdict,
) -> Response {
    let call = match verdict {
        Verdict::Retry => "replay",
        Verdict::Abandon => "abandon",
    };
    let about = id.clone();
    post_once(app, headers, Scope::Admin, call, &about, body, |app, caller, _| async move {
        let id = read_id(&id)?;
        let before = read(&app, id, caller.bound_to()).await?;
        let changed = app.engine.outbox.decide(id, verdict).await?;
        // A replay that finds the delivery pending has what it wants.
        if !changed
            && verdict == Verdict::Abandon
            && before.delivery.state != DeliveryState::Abandoned
        {
            let detail = "It has arrived already.";
            let (status, title) = (StatusCode::CONFLICT, "The delivery has ended");
            return Err(Problem::new(status, "delivery_ended", title, detail));
        }
        let after = read(&app, id, caller.bound_to()).await?;
        Ok(JsonBody::new(StatusCode::ACCEPTED, &after))
    })
    .await
}

async fn read(
    app: &App,
    id: DeliveryId,
    tenant: Option<&str>,
) -> Result<FullDeliveryBody, Problem> {
    let found = app.engine.outbox.find(id, tenant).await?;
    // Those of documents are dead letters, where it is recorded who decides about them.
    let found = found.filter(|(_, _, receiver)| receiver.sink().is_none());
    let (record, attempts, receiver) = found.ok_or_else(|| Problem::not_found("delivery"))?;
    let body = app.engine.outbox.body_of(id).await?.unwrap_or_default();
    let body = serde_json::from_str(&body).unwrap_or(Value::Null);
    Ok(FullDeliveryBody {
        delivery: DeliveryBody::new(record, &receiver),
        failed_attempts: attempts.into_iter().map(AttemptBody::from).collect(),
        body,
    })
}

/// Reads the number of a delivery.
fn read_id(text: &str) -> Result<DeliveryId, Problem> {
    read_number(text, "delivery").map(DeliveryId)
}
