//! `/api/v1/dead-letters`: work that automatic retries gave up on.

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::LiveType;
use engine::documents::{DeadDocuments, Decision};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::{BatchId, DeadChunk, DeadFilter, DeliveryId, DocumentRecord, Scope, TypeId, Verdict};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::auth::Caller;
use super::batches::{check_text, read_id};
use super::extract::{Body, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, post_once, read_json};

/// Which dead letters.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadQuery {
    /// The tenant; all that the key may see where it is left out. `project` is the same.
    #[serde(default, alias = "project")]
    tenant: Option<String>,
    /// Only of this ID type.
    #[serde(default, rename = "type")]
    type_name: Option<String>,
    /// Only of this batch.
    #[serde(default)]
    batch: Option<String>,
    /// Only this chunk of the batch.
    #[serde(default)]
    chunk: Option<u64>,
    /// Only the document with this ID.
    #[serde(default)]
    document: Option<String>,
    /// Only `chunk` or only `document`.
    #[serde(default)]
    kind: Option<Kind>,
    /// Why. It is kept in the audit log for each dead letter.
    #[serde(default)]
    reason: Option<String>,
}

/// What a dead letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A chunk of a batch.
    Chunk,
    /// A document.
    Document,
}

impl DeadQuery {
    /// Whether it is about some of a kind.
    fn is_about(&self, kind: Kind, caller: &Caller) -> bool {
        let named = match kind {
            Kind::Chunk => self.document.is_none(),
            // Whoever makes codes need not see documents.
            Kind::Document => self.batch.is_none() && caller.allows(Scope::Issue),
        };
        named && self.kind.is_none_or(|only| only == kind)
    }

    fn documents<'a>(&'a self, tenant: Option<&'a str>) -> DeadDocuments<'a> {
        let (type_name, id) = (self.type_name.as_deref(), self.document.as_deref());
        DeadDocuments { tenant, type_name, id }
    }

    fn filter(&self) -> Result<DeadFilter, Problem> {
        let batch = self.batch.as_deref().map(read_id).transpose()?;
        if self.chunk.is_some() && batch.is_none() {
            return Err(Problem::invalid("A chunk is one of a batch; say of which."));
        }
        Ok(DeadFilter { batch, chunk: self.chunk, ..DeadFilter::default() })
    }
}

/// A dead letter: a chunk of a batch, or a document.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterBody {
    /// `chunk` or `document`.
    #[schema(value_type = String)]
    kind: Kind,
    tenant: String,
    #[serde(rename = "type")]
    type_name: String,
    /// The batch of a chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    /// Which chunk of the batch, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<u64>,
    /// The ID of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    first_serial: String,
    last_serial: String,
    /// How often it was tried.
    attempts: u32,
    /// The last error.
    error: String,
    #[schema(value_type = String, format = DateTime)]
    died_at: Timestamp,
}

impl DeadLetterBody {
    fn of_chunk(dead: DeadChunk, live: &LiveType) -> Self {
        let id_type = &live.stored().id_type;
        Self {
            kind: Kind::Chunk,
            tenant: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            batch: Some(dead.batch.0.to_string()),
            chunk: Some(dead.number),
            document: None,
            first_serial: dead.serials.start.to_string(),
            last_serial: dead.serials.end.saturating_sub(1).to_string(),
            attempts: dead.attempts,
            error: dead.error,
            died_at: dead.died_at,
        }
    }

    fn of_document(record: DocumentRecord, live: &LiveType) -> Self {
        let id_type = &live.stored().id_type;
        let (serial, delivery) = (record.key.serial.to_string(), record.delivery);
        Self {
            kind: Kind::Document,
            tenant: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            batch: None,
            chunk: None,
            document: Some(delivery.content.key),
            first_serial: serial.clone(),
            last_serial: serial,
            attempts: delivery.attempts,
            error: delivery.last.and_then(|attempt| attempt.error).unwrap_or_default(),
            died_at: delivery.settled_at.unwrap_or(delivery.created_at),
        }
    }
}

/// A page of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLettersBody {
    dead_letters: Vec<DeadLetterBody>,
    /// Pass this as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// List dead letters
#[utoipa::path(get, path = "/api/v1/dead-letters", tag = "Dead letters", params(DeadLettersQuery),
    responses((status = 200, body = DeadLettersBody)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(query): Query<DeadLettersQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let DeadLettersQuery { tenant, type_name, batch, chunk, document, kind, after, limit } =
            query;
        let query = DeadQuery { tenant, type_name, batch, chunk, document, kind, reason: None };
        let page = PageQuery { after, limit };
        let limit = page.limit()?;
        let after = page.after.as_deref().map(Cursor::read).transpose()?;
        let mut found = find(&app, caller, &query, after, limit + 1).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(cursor, _)| cursor.to_string());
        let dead_letters = found.into_iter().map(|(_, dead)| dead).collect();
        Ok(JsonBody::ok(&DeadLettersBody { dead_letters, next }))
    })
    .await
}

/// So many of the list, each with its place: chunks, and behind them documents.
async fn find(
    app: &App,
    caller: &Caller,
    query: &DeadQuery,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Vec<(Cursor, DeadLetterBody)>, Problem> {
    let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
    let (tenant, type_name) = (tenant.as_deref(), query.type_name.as_deref());
    let mut found = Vec::new();
    let (behind_chunk, behind_document) = match after {
        None => (None, None),
        Some(Cursor::Chunk(batch, chunk)) => (Some((batch, chunk)), None),
        Some(Cursor::Document(type_id, id)) => (None, Some((type_id, id))),
    };
    if query.is_about(Kind::Chunk, caller) && behind_document.is_none() {
        let filter = DeadFilter { after: behind_chunk, limit, ..query.filter()? };
        let dead = app.engine.batches.dead_letters(tenant, type_name, filter).await?;
        found.extend(dead.into_iter().map(|(dead, live)| {
            (Cursor::Chunk(dead.batch, dead.number), DeadLetterBody::of_chunk(dead, &live))
        }));
    }
    if query.is_about(Kind::Document, caller) {
        let (wanted, rest) = (query.documents(tenant), limit - found.len());
        let dead = app.engine.documents.dead_letters(wanted, behind_document, rest).await?;
        found.extend(dead.into_iter().map(|(record, live)| {
            let cursor = Cursor::Document(record.key.type_id, record.delivery.id);
            (cursor, DeadLetterBody::of_document(record, &live))
        }));
    }
    Ok(found)
}

/// Which dead letters, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadLettersQuery {
    /// The tenant; all that the key may see where it is left out. `project` is the same.
    #[serde(alias = "project")]
    tenant: Option<String>,
    /// Only of this ID type.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// Only of this batch.
    batch: Option<String>,
    /// Only this chunk of the batch.
    chunk: Option<u64>,
    /// Only the document with this ID.
    document: Option<String>,
    /// Only `chunk` or only `document`.
    #[param(value_type = Option<String>)]
    kind: Option<Kind>,
    /// Continue behind this entry: the `next` of the page before.
    after: Option<String>,
    /// At most so many entries, from 1 to 1,000; 100 if left out.
    limit: Option<usize>,
}

/// A place in the list.
enum Cursor {
    Chunk(BatchId, u64),
    Document(TypeId, DeliveryId),
}

impl Cursor {
    fn read(text: &str) -> Result<Self, Problem> {
        let number = |text: &str| text.parse::<i64>().ok();
        let parts: Vec<&str> = text.split('-').collect();
        let cursor = match parts[..] {
            ["document", type_id, id] => number(type_id)
                .zip(number(id))
                .map(|(type_id, id)| Self::Document(TypeId(type_id), DeliveryId(id))),
            [batch, chunk] => {
                read_id(batch).ok().zip(chunk.parse().ok()).map(|(b, c)| Self::Chunk(b, c))
            }
            _ => None,
        };
        cursor.ok_or_else(|| Problem::invalid("after must be the next of the page before."))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk(batch, chunk) => write!(f, "{}-{chunk}", batch.0),
            Self::Document(type_id, id) => write!(f, "document-{}-{}", type_id.0, id.0),
        }
    }
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledBody {
    /// How many dead letters this was about.
    settled: u64,
}

/// Retry dead letters
///
/// All that match the body; an empty object is all of them. Documents keep their IDs.
#[utoipa::path(post, path = "/api/v1/dead-letters/retry", tag = "Dead letters", request_body = DeadQuery,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = SettledBody)))]
pub(crate) async fn retry(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    settle(&app, &headers, body, Verdict::Retry).await
}

/// Abandon dead letters
///
/// All that match the body; an empty object is all of them. Their serials become gaps with reason
/// `abandoned`.
#[utoipa::path(post, path = "/api/v1/dead-letters/abandon", tag = "Dead letters", request_body = DeadQuery,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a retry harmless")),
    responses((status = 200, body = SettledBody)))]
pub(crate) async fn abandon(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(body): Body,
) -> Response {
    settle(&app, &headers, body, Verdict::Abandon).await
}

async fn settle(app: &Arc<App>, headers: &HeaderMap, body: Bytes, verdict: Verdict) -> Response {
    let call = match verdict {
        Verdict::Retry => "retry dead letters",
        Verdict::Abandon => "abandon dead letters",
    };
    post_once(app, headers, Scope::Batch, call, "", body, |app, caller, body| async move {
        let query: DeadQuery = read_json(&body)?;
        let reason = query.reason.as_deref();
        reason.map_or(Ok(()), |reason| check_text("reason", reason))?;
        let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
        let (tenant, type_name) = (tenant.as_deref(), query.type_name.as_deref());
        let (filter, mut settled) = (query.filter()?, 0);
        let decision = Decision { verdict, key_id: caller.key_id(), reason };
        if query.is_about(Kind::Chunk, &caller) {
            settled += app.engine.batches.settle(tenant, type_name, filter, decision).await?;
        }
        if query.is_about(Kind::Document, &caller) {
            settled += app.engine.documents.settle(query.documents(tenant), decision).await?;
        }
        Ok(JsonBody::ok(&SettledBody { settled }))
    })
    .await
}
