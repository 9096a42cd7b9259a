//! `GET /api/v1/issuances`: who was given a number.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::Issuance;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::{Gap, GapReason, Scope};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::Query;
use super::problem::Problem;
use super::request::{JsonBody, as_caller};

/// Which number.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct IssuancesQuery {
    /// The tenant; the key's own, or `default`, where it is left out.
    tenant: Option<String>,
    /// The ID type.
    #[serde(rename = "type")]
    type_name: String,
    /// The serial. Give this or `id`. A snowflake is its own serial.
    serial: Option<u64>,
    /// The ID.
    id: Option<String>,
    /// The counter within a type that starts again, such as `2026`; any where it is left out.
    period: Option<String>,
}

/// What became of a serial.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IssuancesBody {
    /// The serial.
    serial: String,
    /// Who was given it; more than one entry only if the type starts again.
    issuances: Vec<IssuanceBody>,
    /// The gaps that it lies in.
    gaps: Vec<GapBody>,
    /// The batch that it was ordered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    /// Always null: the list is complete.
    next: Option<String>,
}

/// One issue.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IssuanceBody {
    /// First serial that was handed out with it.
    first: String,
    /// Last serial that was handed out with it.
    last: String,
    /// The counter within the type.
    #[serde(skip_serializing_if = "String::is_empty")]
    period: String,
    /// The public part of the API key; null where the server ran open.
    key: Option<String>,
    /// What people call the key.
    key_name: Option<String>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    issued_at: Timestamp,
}

/// A range of serials that will never carry anything.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GapBody {
    /// First serial.
    first: String,
    /// Last serial.
    last: String,
    /// How many.
    count: u64,
    /// The counter within the type.
    #[serde(skip_serializing_if = "String::is_empty")]
    period: String,
    /// Why, as in the list of gaps.
    #[schema(value_type = String)]
    reason: GapReason,
    /// When it was found.
    #[schema(value_type = String, format = DateTime)]
    detected_at: Timestamp,
}

impl From<Issuance> for IssuanceBody {
    fn from(issuance: Issuance) -> Self {
        let issue = issuance.record.issue;
        Self {
            first: issue.first.to_string(),
            last: issue.last.to_string(),
            period: issuance.record.period,
            key: issuance.key,
            key_name: issuance.key_name,
            issued_at: Timestamp::from_millisecond(issue.at_ms).unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }
}

impl From<Gap> for GapBody {
    fn from(gap: Gap) -> Self {
        let serials = gap.span.serials;
        Self {
            first: serials.start.to_string(),
            last: serials.end.saturating_sub(1).to_string(),
            count: serials.end - serials.start,
            period: gap.span.period,
            reason: gap.reason,
            detected_at: gap.detected_at,
        }
    }
}

/// Find out who was given a number
#[utoipa::path(get, path = "/api/v1/issuances", tag = "IDs", params(IssuancesQuery),
    responses((status = 200, body = IssuancesBody), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn find(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<IssuancesQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(query.tenant.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &query.type_name)?;
        let (serial, shown) = match (query.serial, &query.id) {
            (Some(serial), None) => (serial, None),
            (None, Some(id)) => live.serial_of(id).map_err(|error| {
                Problem::invalid(format!("{id:?} is not an ID of this type: {error}."))
            })?,
            _ => return Err(Problem::invalid("Give either serial or id.")),
        };
        let period = query.period.clone().or(shown);
        let history = app.engine.history(&live, period.as_deref(), serial).await?;
        let open_gaps = history.gaps.into_iter().filter(|gap| gap.closed_at.is_none());
        Ok(JsonBody::ok(&IssuancesBody {
            serial: serial.to_string(),
            issuances: history.issuances.into_iter().map(IssuanceBody::from).collect(),
            gaps: open_gaps.map(GapBody::from).collect(),
            batch: history.batch.map(|batch| batch.0.to_string()),
            next: None,
        }))
    })
    .await
}
