//! `/api/v1/ids/{project}/{type}/{id}/history`: one number's whole story.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::Issuance;
use engine::documents::subject;
use jiff::Timestamp;
use serde::Serialize;
use storage::{
    Attempt, Deed, DeedFilter, DeliveryState, DocumentRecord, Gap, Reservation, ReservationState,
    Scope,
};
use utoipa::ToSchema;

use super::App;
use super::extract::Path;
use super::problem::Problem;
use super::request::{JsonBody, as_caller};

/// Decisions about one document that are shown.
const DEEDS_MAX: usize = 100;

/// What became of an ID.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryBody {
    id: String,
    project: String,
    #[serde(rename = "type")]
    type_name: String,
    serial: String,
    /// `PENDING`, `COMMITTED`, `DEAD_LETTER` or `ABANDONED` for a document; otherwise `RESERVED`, `GAP`,
    /// `IN_BATCH`, `ISSUED`, or `UNKNOWN` for one that was never handed out, or is under way just now.
    state: &'static str,
    /// The batch that it was ordered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    /// What happened, in order of time.
    events: Vec<EventBody>,
}

/// Something that happened to an ID.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct EventBody {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// `issued`, `reserved`, `assigned`, `attempt_failed`, `committed`, `dead_lettered`, `abandoned`,
    /// `retry_ordered`, `abandon_ordered`, `lost`, `gap_found`, `gap_closed` or `gap_signed_off`.
    event: &'static str,
    /// The counter within a type that starts again.
    #[serde(skip_serializing_if = "String::is_empty")]
    period: String,
    /// The public part of the API key of whoever did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Why, or what else is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// Show an ID's history
#[utoipa::path(get, path = "/api/v1/ids/{project}/{type}/{id}/history", tag = "IDs",
    responses((status = 200, body = HistoryBody), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path((project, type_name, id)): Path<(String, String, String)>,
) -> Response {
    as_caller(&app, &headers, Scope::Admin, async |caller| {
        let tenant = caller.tenant(Some(&project))?;
        let engine = &app.engine;
        let live = engine.catalogue.find(&tenant, &type_name)?;
        let (serial, period) = live.serial_of(&id).map_err(|error| {
            Problem::invalid(format!("{id:?} is not an ID of this type: {error}."))
        })?;
        let history = engine.history(&live, period.as_deref(), serial).await?;
        let documents = engine.document_history(&live, period.as_deref(), serial).await?;
        // As it was written, whatever case or separators it is asked for with.
        let written = documents.documents.last().map(|(record, _)| &record.delivery.content.key);
        let subject = Some(subject(&live, written.unwrap_or(&id)));
        let filter = DeedFilter { subject, limit: DEEDS_MAX, ..DeedFilter::default() };
        let deeds = engine.audit.list(&filter).await?;
        let story = Story { app: &app };
        let mut events = Vec::new();
        for (record, attempts) in &documents.documents {
            story.document(record, attempts, &mut events);
        }
        for issuance in &history.issuances {
            // Documents are in the log of issues as well.
            let is_document = documents
                .documents
                .iter()
                .any(|(record, _)| record.key.period == issuance.record.period);
            if !is_document {
                events.push(issued(issuance));
            }
        }
        events.extend(documents.reservations.iter().map(|held| story.reserved(held)));
        history.gaps.iter().for_each(|gap| story.gap(gap, &mut events));
        events.extend(deeds.iter().map(|(_, deed)| story.decided(deed)));
        events.sort_by_key(|event| event.at);
        let held = documents.reservations.iter();
        let held = held.filter(|held| held.state == ReservationState::Held).count() > 0;
        let open_gap = history.gaps.iter().any(|gap| gap.closed_at.is_none());
        let state = match documents.documents.last() {
            Some((record, _)) => state_name(record.delivery.state),
            None if held => "RESERVED",
            None if open_gap => "GAP",
            None if history.batch.is_some() => "IN_BATCH",
            None if !history.issuances.is_empty() => "ISSUED",
            None => "UNKNOWN",
        };
        Ok(JsonBody::ok(&HistoryBody {
            id: id.clone(),
            project: tenant.into_owned(),
            type_name: type_name.clone(),
            serial: serial.to_string(),
            state,
            batch: history.batch.map(|batch| batch.0.to_string()),
            events,
        }))
    })
    .await
}

fn state_name(state: DeliveryState) -> &'static str {
    match state {
        DeliveryState::Pending => "PENDING",
        DeliveryState::Delivered => "COMMITTED",
        DeliveryState::Dead => "DEAD_LETTER",
        DeliveryState::Abandoned => "ABANDONED",
    }
}

fn issued(issuance: &Issuance) -> EventBody {
    let at = Timestamp::from_millisecond(issuance.record.issue.at_ms);
    EventBody {
        at: at.unwrap_or(Timestamp::UNIX_EPOCH),
        event: "issued",
        period: issuance.record.period.clone(),
        key: issuance.key.clone(),
        detail: None,
    }
}

/// Turns records into events.
struct Story<'a> {
    app: &'a App,
}

impl Story<'_> {
    fn key(&self, id: i64) -> Option<String> {
        let key = self.app.engine.key_by_number(id);
        key.map(|key| key.stored().key.short.clone())
    }

    fn document(&self, record: &DocumentRecord, attempts: &[Attempt], events: &mut Vec<EventBody>) {
        let (delivery, period) = (&record.delivery, &record.key.period);
        let reference = record.reference.as_ref();
        let event =
            |at, event, detail| EventBody { at, event, period: period.clone(), key: None, detail };
        events.push(EventBody {
            key: self.key(record.key_id),
            ..event(
                delivery.created_at,
                "assigned",
                reference.map(|name| format!("client_reference {name}")),
            )
        });
        for attempt in attempts {
            events.push(event(attempt.at, "attempt_failed", attempt.error.clone()));
        }
        let what = match delivery.state {
            DeliveryState::Pending => return,
            DeliveryState::Delivered => "committed",
            DeliveryState::Dead => "dead_lettered",
            DeliveryState::Abandoned => "abandoned",
        };
        events.extend(delivery.settled_at.map(|at| event(at, what, None)));
    }

    fn reserved(&self, held: &Reservation) -> EventBody {
        EventBody {
            at: held.created_at,
            event: "reserved",
            period: held.key.period.clone(),
            key: self.key(held.key_id),
            detail: Some(format!("until {}, {}", held.expires_at, held.state.name())),
        }
    }

    fn gap(&self, gap: &Gap, events: &mut Vec<EventBody>) {
        let period = || gap.span.period.clone();
        let event =
            |at, event, detail| EventBody { at, event, period: period(), key: None, detail };
        let reason = Some(gap.reason.name().to_owned());
        let lost_at = gap.time_of_loss().filter(|lost_at| *lost_at != gap.detected_at);
        events.extend(lost_at.map(|at| event(at, "lost", reason.clone())));
        events.push(event(gap.detected_at, "gap_found", reason.clone()));
        events.extend(gap.closed_at.map(|at| event(at, "gap_closed", reason)));
        if let Some(signed) = &gap.sign_off {
            let key = self.key(signed.key_id);
            let note = Some(signed.note.clone());
            events.push(EventBody { key, ..event(signed.at, "gap_signed_off", note) });
        }
    }

    fn decided(&self, deed: &Deed) -> EventBody {
        let detail: serde_json::Value = serde_json::from_str(&deed.detail).unwrap_or_default();
        let event = match deed.action.as_str() {
            "document.retried" => "retry_ordered",
            _ => "abandon_ordered",
        };
        EventBody {
            at: deed.at,
            event,
            period: String::new(),
            key: self.key(deed.key_id),
            detail: detail["reason"].as_str().map(ToOwned::to_owned),
        }
    }
}
