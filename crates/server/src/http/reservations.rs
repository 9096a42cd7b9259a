//! `/api/v1/reservations`: an ID that is held until its document is there.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::LiveType;
use engine::documents::HoldOrder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage::{Reservation, ReservationId, Scope};
use utoipa::ToSchema;

use super::App;
use super::documents::{AssignedBody, OneBody, read_document};
use super::extract::{Body, Path, read_documents_body};
use super::problem::Problem;
use super::request::{
    JsonBody, as_caller, idempotency_key, post_once, post_read_once, read_json, read_number,
};

/// The longest that an ID is held, in seconds.
const HOLD_SECONDS_MAX: u32 = 86_400;

/// An ID to be held.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveBody {
    /// Whose ID type; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(default, alias = "tenant")]
    project: Option<String>,
    /// The ID type: a sequence that is not gapless, or a random one.
    #[serde(rename = "type")]
    #[schema(example = "9012")]
    type_name: String,
    /// For how long, from 1 to 86,400; as configured, usually 600, where it is left out.
    #[serde(default)]
    hold_seconds: Option<u32>,
}

/// An ID that is or was held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReservationBody {
    /// What to confirm or release it by.
    reservation: String,
    /// The ID.
    id: String,
    project: String,
    #[serde(rename = "type")]
    type_name: String,
    serial: String,
    /// `held`, `confirmed`, `released` or `expired`.
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl ReservationBody {
    fn new(reservation: Reservation, live: &LiveType) -> Self {
        let id_type = &live.stored().id_type;
        Self {
            reservation: reservation.id.0.to_string(),
            id: reservation.text,
            project: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            serial: reservation.key.serial.to_string(),
            state: reservation.state.name(),
            expires_at: reservation.expires_at,
            created_at: reservation.created_at,
        }
    }
}

/// The document of an ID that is held.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfirmBody<'a> {
    /// What is delivered: any JSON but null.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    payload: &'a RawValue,
    /// What the client calls the document. Unique for an ID type.
    #[serde(default)]
    client_reference: Option<String>,
}

/// Hold an ID
///
/// Until it is confirmed with a document or released, or its time has run out. An ID that is not confirmed
/// is a gap with reason `reservation_released` or `reservation_expired`, and is never issued again.
#[utoipa::path(
    post,
    path = "/api/v1/reservations",
    tag = "Documents",
    request_body = ReserveBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 201, body = ReservationBody),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "A gapless type"),
    )
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    post_once(&app, &headers, Scope::Issue, "reserve", "", body, |app, caller, body| async move {
        let order: ReserveBody = read_json(&body)?;
        let tenant = caller.tenant(order.project.as_deref())?;
        let hold = order.hold_seconds.unwrap_or(app.hold_seconds);
        if !(1..=HOLD_SECONDS_MAX).contains(&hold) {
            let detail = format!("hold_seconds must be from 1 to {HOLD_SECONDS_MAX}, not {hold}.");
            return Err(Problem::invalid(detail));
        }
        let order = HoldOrder {
            tenant: tenant.into_owned(),
            type_name: order.type_name,
            key_id: caller.key_id(),
            hold: Duration::from_secs(hold.into()),
        };
        let (reservation, live) = app.engine.documents.reserve(order).await?;
        Ok(JsonBody::new(StatusCode::CREATED, &ReservationBody::new(reservation, &live)))
    })
    .await
}

/// Show a reservation
#[utoipa::path(get, path = "/api/v1/reservations/{reservation}", tag = "Documents",
    responses((status = 200, body = ReservationBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let documents = &app.engine.documents;
        let (reservation, live) = documents.reservation(read_id(&id)?, caller.bound_to()).await?;
        Ok(JsonBody::ok(&ReservationBody::new(reservation, &live)))
    })
    .await
}

/// Confirm a reservation
///
/// The document gets the ID, and is delivered to the sink of its type. Confirming again with the same
/// payload gives the same answer.
#[utoipa::path(post, path = "/api/v1/reservations/{reservation}/confirm", tag = "Documents",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    request_body = ConfirmBody,
    responses((status = 202, body = AssignedBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It is not held any more, or the client_reference belongs to another document"),
        (status = 413, body = Problem)))]
pub(crate) async fn confirm(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    body: axum::body::Body,
) -> Response {
    let key = idempotency_key(&headers).ok().flatten().map(ToOwned::to_owned);
    let about = id.clone();
    let body = read_documents_body(body, &app);
    post_read_once(
        &app,
        &headers,
        Scope::Issue,
        "confirm",
        &about,
        body,
        |app, caller, body| async move {
            let ConfirmBody { payload, client_reference } = read_json(&body)?;
            let document = OneBody { payload, client_reference };
            let call = format!("confirm {id}");
            let document = read_document(&app, &caller, document, key.as_deref(), &call, 0)?;
            let documents = &app.engine.documents;
            let id = documents.confirm(read_id(&id)?, caller.bound_to(), &document).await?;
            Ok(JsonBody::new(StatusCode::ACCEPTED, &AssignedBody::One { id }))
        },
    )
    .await
}

/// Release a reservation
///
/// The ID is a gap from then on. What has ended stays as it is.
#[utoipa::path(post, path = "/api/v1/reservations/{reservation}/release", tag = "Documents",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = ReservationBody), (status = 404, body = Problem),
        (status = 409, body = Problem, description = "It has a document")))]
pub(crate) async fn release(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(body): Body,
) -> Response {
    let about = id.clone();
    post_once(&app, &headers, Scope::Issue, "release", &about, body, |app, caller, _| async move {
        let documents = &app.engine.documents;
        let (reservation, live) = documents.release(read_id(&id)?, caller.bound_to()).await?;
        Ok(JsonBody::ok(&ReservationBody::new(reservation, &live)))
    })
    .await
}

/// Whether a path is one of [`confirm`].
pub(super) fn is_confirmation(path: &str) -> bool {
    path.starts_with("/api/v1/reservations/") && path.ends_with("/confirm")
}

fn read_id(text: &str) -> Result<ReservationId, Problem> {
    read_number(text, "reservation").map(ReservationId)
}
