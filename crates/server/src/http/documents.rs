//! `/api/v1/documents`: an ID and its payload in one step.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::LiveType;
use engine::documents::AssignOrder;
use hyper::body::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage::{DeliveryId, DeliveryState, DocumentFilter, DocumentRecord, NewDocument, Scope};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::auth::Caller;
use super::batches::check_text;
use super::deliveries::AttemptBody;
use super::extract::{Path, Query, read_documents_body};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, idempotency_key, post_read_once, read_json};
use super::unread::RequestBody;

/// The path of assigning.
pub(super) const PATH: &str = "/api/v1/documents";

/// One document, or several, that need IDs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssignBody<'a> {
    /// Whose ID type; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(default, alias = "tenant")]
    project: Option<String>,
    /// The ID type: a sequence or a random one.
    #[serde(rename = "type")]
    #[schema(example = "9012")]
    type_name: String,
    /// What is delivered: any JSON but null. Either this or `documents`.
    #[serde(default, borrow)]
    #[schema(value_type = Option<Object>)]
    payload: Option<&'a RawValue>,
    /// What the client calls the document. Unique for an ID type: a second document of that name with the
    /// same payload gets the ID of the first.
    #[serde(default)]
    client_reference: Option<String>,
    /// Several documents, up to 10,000. All of them are taken, or none.
    #[serde(default, borrow)]
    documents: Option<Vec<OneBody<'a>>>,
}

/// One document of several.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneBody<'a> {
    /// What is delivered: any JSON but null.
    #[serde(borrow)]
    #[schema(value_type = Object)]
    pub(super) payload: &'a RawValue,
    /// What the client calls the document.
    #[serde(default)]
    pub(super) client_reference: Option<String>,
}

/// The ID of one document, or the IDs of several, in order.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum AssignedBody {
    /// Of `payload`.
    One {
        /// The ID.
        id: String,
    },
    /// Of `documents`.
    Many {
        /// The IDs.
        ids: Vec<String>,
    },
}

/// Where a document stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum DocumentState {
    /// It waits, or is under way.
    Pending,
    /// It is in the sink.
    Committed,
    /// Automatic retries gave up on it.
    DeadLetter,
    /// Somebody gave it up.
    Abandoned,
}

impl From<DeliveryState> for DocumentState {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Pending => Self::Pending,
            DeliveryState::Delivered => Self::Committed,
            DeliveryState::Dead => Self::DeadLetter,
            DeliveryState::Abandoned => Self::Abandoned,
        }
    }
}

impl From<DocumentState> for DeliveryState {
    fn from(state: DocumentState) -> Self {
        match state {
            DocumentState::Pending => Self::Pending,
            DocumentState::Committed => Self::Delivered,
            DocumentState::DeadLetter => Self::Dead,
            DocumentState::Abandoned => Self::Abandoned,
        }
    }
}

/// A document.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentBody {
    id: String,
    project: String,
    #[serde(rename = "type")]
    type_name: String,
    serial: String,
    client_reference: Option<String>,
    #[schema(value_type = String)]
    state: DocumentState,
    /// Attempts since it was put on record, or retried by hand.
    attempts: u32,
    /// Why the last attempt failed.
    last_error: Option<String>,
    /// The last attempt.
    last_attempt: Option<AttemptBody>,
    /// When the next attempt is due, at the latest. Only while it is pending.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it came to the state that it is in; null while it is pending.
    #[schema(value_type = Option<String>, format = DateTime)]
    settled_at: Option<Timestamp>,
    /// What is delivered. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    payload: Option<Box<RawValue>>,
}

impl DocumentBody {
    fn new(record: DocumentRecord, live: &LiveType, payload: Option<String>) -> Self {
        let DocumentRecord { key, reference, delivery, .. } = record;
        let id_type = &live.stored().id_type;
        Self {
            id: delivery.content.key,
            project: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            serial: key.serial.to_string(),
            client_reference: reference,
            state: delivery.state.into(),
            attempts: delivery.attempts,
            last_error: delivery.last.as_ref().and_then(|attempt| attempt.error.clone()),
            last_attempt: delivery.last.map(AttemptBody::from),
            next_attempt_at: delivery.due_at,
            created_at: delivery.created_at,
            settled_at: delivery.settled_at,
            payload: payload.and_then(|payload| RawValue::from_string(payload).ok()),
        }
    }
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentListBody {
    /// The latest first.
    documents: Vec<DocumentBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Assign IDs to documents
///
/// The ID and the document are put on record together, and the document is delivered to the sink of its
/// type. The same `Idempotency-Key`, or the same `client_reference`, with the same payload gives the same
/// ID again.
#[utoipa::path(
    post,
    path = "/api/v1/documents",
    tag = "Documents",
    request_body = AssignBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses(
        (status = 202, body = AssignedBody),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "Unknown type"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "No sink, or a client_reference that belongs to another document"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "A payload is too large"),
    )
)]
pub(crate) async fn assign(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    assign_once(&app, &headers, body).await
}

/// The same for a request that did not come through the router.
pub(super) async fn assign_directly(
    app: &Arc<App>,
    headers: &HeaderMap,
    body: &mut RequestBody,
) -> Response {
    assign_once(app, headers, body).await
}

async fn assign_once<B>(app: &Arc<App>, headers: &HeaderMap, body: B) -> Response
where
    B: hyper::body::Body<Data = Bytes>,
{
    let key = idempotency_key(headers).ok().flatten().map(ToOwned::to_owned);
    let body = read_documents_body(body, app);
    let work = |app: Arc<App>, caller: Caller, body: Bytes| async move {
        assign_for(&app, &caller, &body, key.as_deref()).await
    };
    post_read_once(app, headers, Scope::Issue, "document", "", body, work).await
}

async fn assign_for(
    app: &App,
    caller: &Caller,
    body: &[u8],
    key: Option<&str>,
) -> Result<JsonBody, Problem> {
    let order: AssignBody<'_> = read_json(body)?;
    let tenant = caller.tenant(order.project.as_deref())?;
    let one = order.payload.is_some();
    let documents = match (order.payload, order.documents) {
        (Some(payload), None) => {
            vec![OneBody { payload, client_reference: order.client_reference }]
        }
        (None, Some(documents)) if order.client_reference.is_none() => documents,
        (None, Some(_)) => {
            return Err(Problem::invalid("client_reference belongs to one of the documents."));
        }
        _ => return Err(Problem::invalid("Give either a payload or documents.")),
    };
    let max = app.documents_max;
    if !(1..=max).contains(&documents.len()) {
        let count = documents.len();
        return Err(Problem::invalid(format!("documents must be 1 to {max}, not {count}.")));
    }
    let call = format!("document {tenant}/{}", order.type_name);
    let read = |(place, document)| read_document(app, caller, document, key, &call, place);
    let documents = documents.into_iter().enumerate().map(read).collect::<Result<_, Problem>>()?;
    let order = AssignOrder { tenant: &tenant, type_name: &order.type_name, documents };
    let mut ids = app.engine.documents.assign(order).await?;
    let body = match ids.pop() {
        Some(id) if one => AssignedBody::One { id },
        last => AssignedBody::Many { ids: ids.into_iter().chain(last).collect() },
    };
    Ok(JsonBody::new(StatusCode::ACCEPTED, &body))
}

/// A document of a request, from its place there on. `call` is what the request is about.
pub(super) fn read_document(
    app: &App,
    caller: &Caller,
    document: OneBody<'_>,
    key: Option<&str>,
    call: &str,
    place: usize,
) -> Result<NewDocument, Problem> {
    check(app, &document)?;
    Ok(NewDocument {
        payload: document.payload.get().to_owned(),
        reference: document.client_reference,
        // A repeated request is the same one even if the answer to the first was never kept.
        // What it was sent to is a part of it, as for answers that are kept.
        request_key: key.map(|key| format!("{} {call} {key} {place}", caller.scope())),
        key_id: caller.key_id(),
    })
}

fn check(app: &App, document: &OneBody<'_>) -> Result<(), Problem> {
    if document.payload.get() == "null" {
        return Err(Problem::invalid("A payload may be any JSON but null."));
    }
    let (bytes, max) = (document.payload.get().len(), app.payload_max);
    if bytes > max {
        let detail = format!("A payload may have {max} bytes; one has {bytes}.");
        let (status, title) = (StatusCode::PAYLOAD_TOO_LARGE, "The payload is too large");
        return Err(Problem::new(status, "payload_too_large", title, detail));
    }
    document
        .client_reference
        .as_deref()
        .map_or(Ok(()), |reference| check_text("client_reference", reference))
}

/// Which document.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentQuery {
    /// Whose; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(alias = "tenant")]
    project: Option<String>,
    /// The ID type; every type that could have written the ID is tried where it is left out.
    #[serde(rename = "type")]
    type_name: Option<String>,
}

/// Show a document
#[utoipa::path(get, path = "/api/v1/documents/{id}", tag = "Documents", params(DocumentQuery),
    responses((status = 200, body = DocumentBody), (status = 404, body = Problem)))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<DocumentQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant(query.project.as_deref())?;
        let documents = &app.engine.documents;
        let (record, live) = documents.find(&tenant, query.type_name.as_deref(), &id).await?;
        let payload = app.engine.outbox.body_of(record.delivery.id).await?;
        Ok(JsonBody::ok(&DocumentBody::new(record, &live, payload)))
    })
    .await
}

/// Which documents.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DocumentsQuery {
    /// Whose; the key's tenant, or `default`, where it is left out. `tenant` is the same.
    #[serde(alias = "tenant")]
    project: Option<String>,
    /// The ID type.
    #[serde(rename = "type")]
    type_name: String,
    /// Only in this state: `PENDING`, `COMMITTED`, `DEAD_LETTER` or `ABANDONED`.
    #[param(value_type = Option<String>)]
    state: Option<DocumentState>,
}

/// List documents
#[utoipa::path(get, path = "/api/v1/documents", tag = "Documents", params(DocumentsQuery, PageQuery),
    responses((status = 200, body = DocumentListBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<DocumentsQuery>,
    Query(page): Query<PageQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Issue, async |caller| {
        let tenant = caller.tenant(query.project.as_deref())?;
        let live = app.engine.catalogue.find(&tenant, &query.type_name)?;
        let limit = page.limit()?;
        let wrong = |_| Problem::invalid("after must be the next of the page before.");
        let before = page.after.as_deref().map(str::parse).transpose().map_err(wrong)?;
        let filter = DocumentFilter {
            type_id: live.stored().id,
            state: query.state.map(DeliveryState::from),
            before: before.map(DeliveryId),
            limit: limit + 1,
        };
        let mut found = app.engine.documents.list(&filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|record| record.delivery.id.0.to_string());
        let documents =
            found.into_iter().map(|record| DocumentBody::new(record, &live, None)).collect();
        Ok(JsonBody::ok(&DocumentListBody { documents, next }))
    })
    .await
}
