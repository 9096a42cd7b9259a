//! `GET /api/v1/batches/{id}/codes`: the file of a batch, rendered while it is downloaded.

mod answer;
mod columns;
mod format;
mod layout;
mod manifest;
mod packing;
mod range;
mod rows;
mod stream;
mod sums;
mod text;
mod url;
mod workbook;

use std::ops::Range;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use engine::LiveType;
use engine::audit::Doing;
use serde::Deserialize;
use serde_json::json;
use storage::{Batch, BatchState, Scope};
use utoipa::IntoParams;

use self::columns::Column;
use self::format::FileFormat;
use self::rows::Rows;
use self::text::TextFile;
use self::workbook::Workbook;
use super::App;
use super::auth::Caller;
use super::batches::read_id;
use super::extract::{Path, Query};
use super::places::{Full, Room};
use super::problem::Problem;
use super::request::as_caller;

pub(crate) use self::manifest::{__path_manifest, manifest};
pub(super) use self::sums::Sums;
pub(super) use self::url::UrlTemplate;

/// Downloads of an instance at once. Each takes a core while its client takes what it is sent.
pub(super) const DOWNLOADS: Room = Room { in_all: 64, per_tenant: 16 };

/// Which codes, and how they are written.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CodesQuery {
    /// `csv` (the default), `ndjson`, `txt`, which has the codes alone, or `xlsx` for spreadsheets.
    #[param(value_type = Option<String>)]
    #[serde(default)]
    format: FileFormat,
    /// For all but txt, any of `code`, `serial`, `id` and `url`, separated by commas.
    columns: Option<String>,
    /// For the column `url`: an address with `{code}`, `{serial}`, `{id}` or the name of an entry of the
    /// batch's metadata in it, such as a GS1 Digital Link that ends in `/01/{gtin}/21/{code}`.
    url: Option<String>,
    /// Leave out so many codes at the beginning. A csv file then has no line with the names of the columns.
    from: Option<u64>,
    /// At most so many codes.
    limit: Option<u64>,
}

/// Download the codes of a batch
///
/// Rendered as it is sent, in order of serials. Every field is text; codes never begin with a character
/// that a spreadsheet takes for a formula. But one that opens a csv file turns what looks like a number into
/// one: codes of digits, hex codes such as `12E45678`, and the 19 digits of `id`, which it rounds. For
/// spreadsheets there is xlsx, where all cells are text. Such a file has a further sheet for every 1,048,575
/// codes, the most that fit below its head.
///
/// A download of text that broke off goes on with `Range`, and with the file's `ETag` as `If-Range`, so
/// that parts of different files never meet. Whoever sends `Range` gets the file as it is, and not
/// compressed.
#[utoipa::path(get, path = "/api/v1/batches/{id}/codes", tag = "Batches",
    params(CodesQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes, such as `bytes=1000-`"),
        ("If-Range" = Option<String>, Header, description = "The whole file if its `ETag` is another")),
    responses(
        (status = 200, content((String = "text/csv"), (String = "application/x-ndjson"),
            (String = "text/plain"),
            (String = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
            headers(("ETag" = String, description = "What the file is; only of text that is not compressed"))),
        (status = 206, content_type = "text/csv", body = String, description = "The part that was asked for",
            headers(("Content-Range" = String, description = "Which part of how many bytes"))),
        (status = 404, body = Problem),
        (status = 409, body = Problem, description = "Not all of them are made yet"),
        (status = 416, body = Problem, description = "The range is beyond the end of the file"),
        (status = 429, body = Problem, description = "Too many downloads, or downloads of this tenant, are under way")))]
pub(crate) async fn codes(
    State(app): State<Arc<App>>,
    method: Method,
    headers: HeaderMap,
    Path(id): Path<String>,
    Query(query): Query<CodesQuery>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let (batch, live) = ended_batch(&app, caller, &id).await?;
        let columns = query.columns.as_deref().map_or(Ok(vec![Column::Code]), Column::read)?;
        if query.format == FileFormat::Txt && columns != [Column::Code] {
            return Err(Problem::invalid("A txt file has the codes alone; use another format."));
        }
        let url = url_template(query.url.as_deref(), &batch)?;
        if columns.contains(&Column::Url) != url.is_some() {
            return Err(Problem::invalid("The column url and the parameter url go together."));
        }
        let tenant = live.stored().id_type.tenant();
        let place = app.downloads.enter(tenant).map_err(no_room)?;
        let made = app.engine.batches.made(&batch).await?;
        let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(u64::MAX));
        let serials = part(made, from, limit);
        // The rest of a file goes on without the names of the columns.
        let with_head = from == 0;
        let rows = Rows::new(&batch, live.share_format(), columns, url);
        let response = match query.format.text() {
            Some(format) => {
                let file = TextFile::new(rows, format);
                answer::text(&method, &headers, file, with_head, &serials, place)?
            }
            None => answer::workbook(Workbook::new(rows, serials), place),
        };
        let id = batch.id.0;
        if method == Method::GET && response.status().is_success() {
            let doing = Doing {
                key_id: caller.key_id(),
                tenant,
                action: "batch.downloaded",
                subject: &id.to_string(),
            };
            // What is sent, which may be more than was asked for.
            let range = response.headers().get(header::CONTENT_RANGE);
            let range = range.and_then(|range| range.to_str().ok());
            let detail = json!({
                "format": query.format.extension(),
                "from": query.from,
                "limit": query.limit,
                "range": range,
            });
            // Before the first byte: codes that cannot be accounted for do not leave.
            app.engine.audit.record(doing, detail.to_string()).await?;
        }
        Ok(answer::name(response, query.format, with_head, id))
    })
    .await
}

fn no_room(full: Full) -> Problem {
    let Room { in_all, per_tenant } = DOWNLOADS;
    Problem::too_many_downloads(match full {
        Full::ForAll => format!("{in_all} downloads are under way here already."),
        Full::ForTheTenant => {
            format!("{per_tenant} downloads of this tenant are under way here already.")
        }
    })
}

/// The template of a batch's addresses.
pub(super) fn url_template(
    text: Option<&str>,
    batch: &Batch,
) -> Result<Option<UrlTemplate>, Problem> {
    let metadata = batch.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    text.map(|text| UrlTemplate::read(text, &metadata.unwrap_or_default())).transpose()
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
