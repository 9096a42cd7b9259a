//! `/api/v1/dead-letters`: work that automatic retries gave up on.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::LiveType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use storage::{BatchId, DeadChunk, DeadFilter, Scope, Verdict};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::batches::read_id;
use super::extract::{Body, Query};
use super::paging::PageQuery;
use super::problem::Problem;
use super::request::{JsonBody, as_caller, post_once, read_json};

/// Which dead letters.
#[derive(Debug, Default, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadQuery {
    /// The tenant; all that the key may see where it is left out.
    #[serde(default)]
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
}

impl DeadQuery {
    fn filter(&self) -> Result<DeadFilter, Problem> {
        let batch = self.batch.as_deref().map(read_id).transpose()?;
        if self.chunk.is_some() && batch.is_none() {
            return Err(Problem::invalid("A chunk is one of a batch; say of which."));
        }
        Ok(DeadFilter { batch, chunk: self.chunk, ..DeadFilter::default() })
    }
}

/// A dead letter: a chunk of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterBody {
    tenant: String,
    #[serde(rename = "type")]
    type_name: String,
    batch: String,
    /// Which chunk of the batch, from 0.
    chunk: u64,
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
    fn new(dead: DeadChunk, live: &LiveType) -> Self {
        let id_type = &live.stored().id_type;
        Self {
            tenant: id_type.tenant().to_owned(),
            type_name: id_type.name().to_owned(),
            batch: dead.batch.0.to_string(),
            chunk: dead.number,
            first_serial: dead.serials.start.to_string(),
            last_serial: dead.serials.end.saturating_sub(1).to_string(),
            attempts: dead.attempts,
            error: dead.error,
            died_at: dead.died_at,
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
        let DeadLettersQuery { tenant, type_name, batch, chunk, after, limit } = query;
        let query = DeadQuery { tenant, type_name, batch, chunk };
        let page = PageQuery { after, limit };
        let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
        let limit = page.limit()?;
        let after = page.after.as_deref().map(read_cursor).transpose()?;
        let filter = DeadFilter { after, limit: limit + 1, ..query.filter()? };
        let batches = &app.engine.batches;
        let mut found =
            batches.dead_letters(tenant.as_deref(), query.type_name.as_deref(), filter).await?;
        let more = found.len() > limit;
        found.truncate(limit);
        let cursor = |(dead, _): &(DeadChunk, _)| format!("{}-{}", dead.batch.0, dead.number);
        let next = found.last().filter(|_| more).map(cursor);
        let dead_letters =
            found.into_iter().map(|(dead, live)| DeadLetterBody::new(dead, &live)).collect();
        Ok(JsonBody::ok(&DeadLettersBody { dead_letters, next }))
    })
    .await
}

/// Which dead letters, and which part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadLettersQuery {
    /// The tenant; all that the key may see where it is left out.
    tenant: Option<String>,
    /// Only of this ID type.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// Only of this batch.
    batch: Option<String>,
    /// Only this chunk of the batch.
    chunk: Option<u64>,
    /// Continue behind this entry: the `next` of the page before.
    after: Option<String>,
    /// At most so many entries, from 1 to 1,000; 100 if left out.
    limit: Option<usize>,
}

fn read_cursor(text: &str) -> Result<(BatchId, u64), Problem> {
    let parts = text.split_once('-');
    let parts = parts.and_then(|(batch, chunk)| Some((read_id(batch).ok()?, chunk.parse().ok()?)));
    parts.ok_or_else(|| Problem::invalid("after must be the next of the page before."))
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledBody {
    /// How many dead letters this was about.
    settled: u64,
}

/// Retry dead letters
///
/// All that match the body; an empty object is all of them.
#[utoipa::path(post, path = "/api/v1/dead-letters/retry", tag = "Dead letters", request_body = DeadQuery,
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
        let tenant = caller.tenant_to_list(query.tenant.as_deref())?;
        let (filter, type_name) = (query.filter()?, query.type_name.as_deref());
        let batches = &app.engine.batches;
        let settled = batches.settle(tenant.as_deref(), type_name, filter, verdict).await?;
        Ok(JsonBody::ok(&SettledBody { settled }))
    })
    .await
}
