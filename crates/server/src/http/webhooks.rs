//! `/api/v1/webhooks`: whom to tell what happened.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::catalogue::Put;
use engine::outbox::LiveReceiver;
use engine::webhooks::{EventKind, OVERLAP_HOURS_DEFAULT, WebhookOrder};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::Scope;
use utoipa::ToSchema;

use super::App;
use super::batches::VoidBody;
use super::extract::{Body, Path, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, post_once, read_json, refuse_idempotency_key};
use super::types::TenantQuery;

/// The longest that an old secret can stay in force: a week.
const OVERLAP_HOURS_MAX: u32 = 168;

/// A webhook, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhookBody {
    name: String,
    tenant: String,
    url: String,
    /// What it is told of.
    #[schema(value_type = Vec<String>)]
    events: Vec<EventKind>,
    /// That nothing is sent to it any more, and why. Putting it again puts it to use.
    disabled: Option<VoidBody>,
    /// When secrets before the latest stop being used.
    #[schema(value_type = Vec<String>)]
    old_secrets_expire_at: Vec<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl WebhookBody {
    fn new(webhook: &LiveReceiver, now: Timestamp) -> Result<Self, Problem> {
        let stored = webhook.stored();
        let view = webhook.view(now).ok_or_else(|| Problem::not_found("webhook"))?;
        Ok(Self {
            name: webhook.name().to_owned(),
            tenant: webhook.tenant().to_owned(),
            url: view.url,
            events: view.events,
            disabled: stored.disabled.clone().map(VoidBody::from),
            old_secrets_expire_at: view.old_secrets_expire_at,
            created_at: stored.created_at,
        })
    }
}

/// A webhook with its latest secret, if that is new: the only time that it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewWebhookBody {
    /// What the signatures are made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_…")]
    secret: Option<String>,
    #[serde(flatten)]
    webhook: WebhookBody,
}

/// A page of webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WebhooksBody {
    /// By tenant and name.
    webhooks: Vec<WebhookBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Settings of a webhook.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhookSettings {
    /// Whose it is; the key's tenant, or `default`, where it is left out.
    #[serde(default)]
    tenant: Option<String>,
    /// Where it is. Nothing is sent to private addresses, unless the server's configuration allows it.
    #[schema(example = "https://example.com/hooks/mintage")]
    url: String,
    /// `batch.completed`, `batch.needs_attention`, `batch.cancelled`; all of them where it is left out.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    events: Option<Vec<EventKind>>,
}

/// List webhooks
#[utoipa::path(get, path = "/api/v1/webhooks", tag = "Webhooks", params(TenantQuery, PageQuery),
    responses((status = 200, body = WebhooksBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(tenant): Query<TenantQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant_to_list(tenant.tenant.as_deref())?;
        let webhooks = app.engine.webhooks.list(tenant.as_deref());
        let cursor = |webhook: &Arc<LiveReceiver>| {
            // No name has a space, so this sorts as the list does.
            format!("{} {}", webhook.tenant(), webhook.name())
        };
        let (webhooks, next) = page.cut(webhooks, cursor)?;
        let now = app.clock.now();
        let webhooks = webhooks.iter().map(|webhook| WebhookBody::new(webhook, now));
        let webhooks = webhooks.collect::<Result<_, _>>()?;
        Ok(JsonBody::ok(&WebhooksBody { webhooks, next }))
    })
    .await
}

/// Show a webhook
#[utoipa::path(get, path = "/api/v1/webhooks/{name}", tag = "Webhooks", params(TenantQuery),
    responses((status = 200, body = WebhookBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let webhook = app.engine.webhooks.find(&tenant, &name)?;
        Ok(JsonBody::ok(&WebhookBody::new(&webhook, app.clock.now())?))
    })
    .await
}

/// Create or change a webhook
///
/// The answer to a new one has its secret, which is shown nowhere else. One that was disabled, because
/// it answered 410, is put to use again. Messages and signatures follow the Standard Webhooks
/// specification.
#[utoipa::path(put, path = "/api/v1/webhooks/{name}", tag = "Webhooks", request_body = WebhookSettings,
    responses((status = 200, body = WebhookBody), (status = 201, body = NewWebhookBody),
        (status = 422, body = Problem)))]
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let settings: WebhookSettings = read_json(&body)?;
        let events = settings.events.unwrap_or_else(|| EventKind::ALL.to_vec());
        if events.is_empty() || !events.iter().all(|kind| EventKind::ALL.contains(kind)) {
            let names = EventKind::ALL.map(EventKind::name).join(", ");
            return Err(Problem::invalid(format!("events must have one or more of {names}.")));
        }
        let tenant = caller.tenant(settings.tenant.as_deref())?.into_owned();
        let order = WebhookOrder { tenant, name: name.clone(), url: settings.url, events };
        let done = app.engine.put_webhook(order).await?;
        let status = match done.put {
            Put::Created => StatusCode::CREATED,
            Put::Kept => StatusCode::OK,
        };
        let webhook = WebhookBody::new(&done.webhook, app.clock.now())?;
        Ok(JsonBody::new(status, &NewWebhookBody { secret: done.secret, webhook }))
    })
    .await
}

/// Delete a webhook
///
/// What it was still to be told is given up.
#[utoipa::path(delete, path = "/api/v1/webhooks/{name}", tag = "Webhooks", params(TenantQuery),
    responses((status = 204), (status = 404, body = Problem)))]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(tenant.tenant.as_deref())?.into_owned();
        app.engine.remove_webhook(tenant, name.clone()).await?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

/// How to go over to a new secret.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RotateBody {
    /// Hours in which the secret before signs as well, 0 to 168; 24 where it is left out.
    #[serde(default)]
    #[schema(maximum = 168)]
    overlap_hours: Option<u32>,
}

/// Give a webhook a new secret
///
/// It is in the answer and nowhere else. Until the overlap is over, messages carry a signature of each
/// secret. An answer to a repeated request would have to store the secret, so an `Idempotency-Key` is
/// refused.
#[utoipa::path(post, path = "/api/v1/webhooks/{name}/rotate", tag = "Webhooks", params(TenantQuery),
    request_body = RotateBody,
    responses((status = 200, body = NewWebhookBody), (status = 404, body = Problem),
        (status = 422, body = Problem, description = "Invalid hours, or an idempotency key")))]
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
    Body(body): Body,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        refuse_idempotency_key(&headers)?;
        let body: RotateBody =
            if body.is_empty() { RotateBody::default() } else { read_json(&body)? };
        let hours = body.overlap_hours.unwrap_or(OVERLAP_HOURS_DEFAULT);
        if hours > OVERLAP_HOURS_MAX {
            let detail = format!("overlap_hours must be from 0 to {OVERLAP_HOURS_MAX}.");
            return Err(Problem::invalid(detail));
        }
        let tenant = caller.tenant(tenant.tenant.as_deref())?.into_owned();
        let (webhook, secret) = app.engine.rotate_webhook(tenant, name.clone(), hours).await?;
        let webhook = WebhookBody::new(&webhook, app.clock.now())?;
        Ok(JsonBody::ok(&NewWebhookBody { secret: Some(secret), webhook }))
    })
    .await
}

/// How a message of no consequence went.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TrialBody {
    /// Whether the webhook took it.
    delivered: bool,
    /// What it answered.
    status: Option<u16>,
    error: Option<String>,
    milliseconds: u64,
}

/// Try a webhook out
///
/// Sends one message of type `webhook.test`, at once and once, and tells how that went.
#[utoipa::path(post, path = "/api/v1/webhooks/{name}/test", tag = "Webhooks",
    params(TenantQuery, ("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = TrialBody), (status = 404, body = Problem)))]
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(tenant): Query<TenantQuery>,
    Body(body): Body,
) -> Response {
    let about = format!("{:?} {name}", tenant.tenant);
    post_once(&app, &headers, Scope::Admin, "test", &about, body, |app, caller, _| async move {
        let tenant = caller.tenant(tenant.tenant.as_deref())?;
        let webhook = app.engine.webhooks.find(&tenant, &name)?;
        let trial = app.engine.webhooks.try_out(&webhook).await;
        Ok(JsonBody::ok(&TrialBody {
            delivered: trial.error.is_none(),
            status: trial.status,
            error: trial.error,
            milliseconds: u64::try_from(trial.duration.as_millis()).unwrap_or(u64::MAX),
        }))
    })
    .await
}
