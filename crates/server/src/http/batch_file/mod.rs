//! `GET /api/v1/batches/{id}/codes`: the file of a batch, rendered while it is downloaded.

mod manifest;
mod packing;
mod rows;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use engine::LiveType;
use futures_util::stream;
use hyper::body::Bytes;
use serde::Deserialize;
use storage::{Batch, BatchState, Scope};
use tracing::info;
use utoipa::IntoParams;

use self::packing::Packer;
use self::rows::{Column, File, FileFormat, PORTION};
use super::App;
use super::auth::Caller;
use super::batches::read_id;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::request::as_caller;

pub(super) use self::manifest::Manifests;
pub(crate) use self::manifest::{__path_manifest, manifest};
pub(super) use self::rows::UrlTemplate;

/// Which codes, and how they are written.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CodesQuery {
    /// `csv` (the default), `ndjson` or `txt`, which has the codes alone.
    #[param(value_type = Option<String>)]
    #[serde(default)]
    format: FileFormat,
    /// For csv and ndjson, any of `code`, `serial`, `id` and `url`, separated by commas.
    columns: Option<String>,
    /// For the column `url`: an address with `{code}`, `{serial}`, `{id}` or the name of an entry of the
    /// batch's metadata in it, such as a GS1 Digital Link that ends in `/01/{gtin}/21/{code}`.
    url: Option<String>,
    /// Leave out so many codes at the beginning.
    from: Option<u64>,
    /// At most so many codes.
    limit: Option<u64>,
}

/// Download the codes of a batch
///
/// Rendered as it is sent, in order of serials. A download that broke off goes on with `from`. Every
/// field is text; codes never begin with a character that a spreadsheet takes for a formula.
#[utoipa::path(get, path = "/api/v1/batches/{id}/codes", tag = "Batches", params(CodesQuery),
    responses((status = 200, content_type = "text/csv", body = String),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Not all of them are made yet")))]
pub(crate) async fn codes(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<CodesQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let (batch, live) = ended_batch(&app, caller, &id).await?;
        let columns = query.columns.as_deref().map_or(Ok(vec![Column::Code]), Column::read)?;
        if query.format == FileFormat::Txt && columns != [Column::Code] {
            return Err(Problem::invalid("A txt file has the codes alone; use csv or ndjson."));
        }
        let url = url_template(query.url.as_deref(), &batch)?;
        if columns.contains(&Column::Url) != url.is_some() {
            return Err(Problem::invalid("The column url and the parameter url go together."));
        }
        let made = app.engine.batches.made(&batch).await?;
        let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(u64::MAX));
        let serials = part(made, from, limit);
        let (id, key) = (batch.id.0, caller.key_id());
        info!(target: "audit", batch = id, key, from, "the codes of batch {id} are downloaded");
        let packer = Packer::for_client(&headers)
            .map_err(|error| Problem::unavailable(format!("Cannot compress: {error}.")))?;
        let (format, coding) = (query.format, packer.coding());
        let file = File::new(&batch, live, format, columns, url);
        let body = stream_file(file, from == 0, serials, packer);
        Ok(with_headers(body, format, coding, id))
    })
    .await
}

/// The template of a batch's addresses.
pub(super) fn url_template(
    text: Option<&str>,
    batch: &Batch,
) -> Result<Option<UrlTemplate>, Problem> {
    let metadata = batch.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    text.map(|text| UrlTemplate::read(text, &metadata.unwrap_or_default())).transpose()
}

fn with_headers(body: Body, format: FileFormat, coding: Option<&'static str>, id: i64) -> Response {
    let name = format!("attachment; filename=\"batch-{id}.{}\"", format.extension());
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    let name = HeaderValue::from_str(&name).expect("visible ASCII");
    headers.insert(header::CONTENT_DISPOSITION, name);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response
}

/// A batch whose file is what it will always be.
async fn ended_batch(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<(Batch, Arc<LiveType>), Problem> {
    let (batch, live) = app.engine.batches.find(read_id(id)?, caller.bound_to()).await?;
    if batch.state.is_final() { Ok((batch, live)) } else { Err(not_ready(&batch)) }
}

fn not_ready(batch: &Batch) -> Problem {
    let (made, total) = (batch.made, batch.count());
    let detail = match batch.state {
        BatchState::NeedsAttention => format!(
            "{made} of {total} codes are made, and some failed; retry or abandon its dead letters."
        ),
        _ => {
            format!("{made} of {total} codes are made; follow its progress until it is completed.")
        }
    };
    Problem::new(StatusCode::CONFLICT, "batch_not_ready", "The batch is not ready", detail)
}

/// The part of some ranges behind the first so many, and at most so many.
fn part(ranges: Vec<Range<u64>>, mut skip: u64, mut limit: u64) -> Vec<Range<u64>> {
    let mut kept = Vec::with_capacity(ranges.len());
    for Range { start, end } in ranges {
        let skipped = skip.min(end - start);
        skip -= skipped;
        let start = start + skipped;
        let end = end.min(start.saturating_add(limit));
        limit -= end - start;
        if start < end {
            kept.push(start..end);
        }
    }
    kept
}

/// Renders a portion each time that the client has taken the one before. A download that fails on the way
/// ends without its last chunk, so that nobody takes it for complete.
fn stream_file(file: File, from_start: bool, serials: Vec<Range<u64>>, packer: Packer) -> Body {
    let head = if from_start { file.head() } else { None };
    let left: Vec<Range<u64>> = serials.into_iter().rev().collect();
    let state = Some((Arc::new(file), head, left, packer));
    Body::from_stream(stream::unfold(state, async |state| {
        let (file, head, mut left, mut packer) = state?;
        let next = left.pop().map(|Range { start, end }| {
            let cut = end.min(start + PORTION);
            if cut < end {
                left.push(cut..end);
            }
            start..cut
        });
        let renderer = Arc::clone(&file);
        // Rendering takes a core for a millisecond, which a worker of the server does not have.
        let step = tokio::task::spawn_blocking(move || {
            let Some(serials) = next else { return packer.finish().map(|bytes| (bytes, None)) };
            let text = head.unwrap_or_default() + &renderer.rows(serials);
            packer.pack(text).map(|bytes| (bytes, Some(packer)))
        });
        match step.await.map_err(io::Error::other).flatten() {
            Ok((bytes, packer)) => {
                let state = packer.map(|packer| (file, None, left, packer));
                Some((Ok(Bytes::from(bytes)), state))
            }
            Err(error) => Some((Err(error), None)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_ranges_is_cut_out() {
        let cut = |skip, limit| {
            let kept = part(vec![0..10, 20..30], skip, limit);
            kept.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(cut(0, u64::MAX), [(0, 10), (20, 30)]);
        assert_eq!(cut(4, 3), [(4, 7)]);
        assert_eq!(cut(8, 4), [(8, 10), (20, 22)]);
        assert_eq!(cut(10, 1), [(20, 21)]);
        assert_eq!(cut(20, 1), []);
        assert_eq!(cut(0, 0), []);
    }
}
