//! `GET /api/v1/batches/{id}/manifest`: proof that a file is the one that was made.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use storage::{Batch, BatchId, Manifest, Scope};
use tracing::warn;
use utoipa::ToSchema;

use super::columns::Column;
use super::ended_batch;
use super::layout::{Layout, Slice};
use super::rows::Rows;
use super::sums::{Standing, Subject};
use super::text::{TextFile, TextFormat};
use crate::http::App;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::request::{JsonBody, as_caller};

/// The file that manifests are about, as it is asked for.
const FILE: &str = "format=csv&columns=code";

/// What a batch has come to.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ManifestBody {
    batch: String,
    /// `ready`; `computing` while it is worked out, or `queued` while others are: ask again then.
    #[schema(value_type = String)]
    state: &'static str,
    /// Codes in the file.
    count: u64,
    /// The serial of its first code; null if there is none.
    first_serial: Option<String>,
    /// The serial of its last code. Those of a cancelled batch that were not made are not in the file.
    last_serial: Option<String>,
    /// Which file the digest is of: `?format=csv` with the column `code`, not compressed.
    file: String,
    /// Its size; null until it is worked out.
    bytes: Option<u64>,
    /// Its SHA-256, in hexadecimal digits; null until it is worked out.
    sha256: Option<String>,
    /// When it was worked out. It stays as it was then.
    #[schema(value_type = Option<String>, format = DateTime)]
    worked_out_at: Option<Timestamp>,
    /// Whether a download of today is this very file; null until it is worked out.
    matches_download: Option<bool>,
    /// Why not, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// Show the manifest of a batch
///
/// Worked out in the background when it is asked for the first time: 202 until it is ready. A tenant has
/// one small and one large file worked out at a time. From then on it is on record and does not change,
/// also if the ID type's codes are grouped in another way later; `matches_download` is false then.
#[utoipa::path(get, path = "/api/v1/batches/{id}/manifest", tag = "Batches",
    responses((status = 200, body = ManifestBody), (status = 202, body = ManifestBody),
        (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(crate) async fn manifest(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let (batch, live) = ended_batch(&app, caller, &id).await?;
        let made = app.engine.batches.made(&batch).await?;
        let rows = Rows::new(&batch, live.share_format(), vec![Column::Code], None);
        let file = TextFile::new(rows, TextFormat::Csv);
        let body = empty_body(&batch, &made);
        if let Some(known) = app.engine.batches.manifest(batch.id).await? {
            let matches = known.file == FILE && known.ends == ends(&file, &made);
            return Ok(JsonBody::ok(&filled(body, known, matches)));
        }
        let tenant = live.stored().id_type.tenant();
        let subject = Subject { tenant, codes: batch.made, batch: batch.id };
        let state = match app.sums.ask(subject, work_out(Arc::clone(&app), batch.id, file, made)) {
            Standing::Computing => "computing",
            Standing::Queued => "queued",
        };
        Ok(JsonBody::new(StatusCode::ACCEPTED, &ManifestBody { state, ..body }))
    })
    .await
}

/// What is known before the file is summed up.
fn empty_body(batch: &Batch, made: &[Range<u64>]) -> ManifestBody {
    ManifestBody {
        batch: batch.id.0.to_string(),
        state: "queued",
        count: batch.made,
        first_serial: made.first().map(|range| range.start.to_string()),
        last_serial: made.last().map(|range| (range.end - 1).to_string()),
        file: FILE.to_owned(),
        bytes: None,
        sha256: None,
        worked_out_at: None,
        matches_download: None,
        note: None,
    }
}

fn filled(body: ManifestBody, known: Manifest, matches: bool) -> ManifestBody {
    let note = "The ID type's codes are written in another way now, such as in other groups. The digest \
                is that of the file as it was; a download of today has another one.";
    ManifestBody {
        state: "ready",
        file: known.file,
        bytes: Some(known.bytes),
        sha256: Some(known.sha256),
        worked_out_at: Some(known.at),
        matches_download: Some(matches),
        note: (!matches).then_some(note),
        ..body
    }
}

/// A digest of the head, the first row and the last one. All rows are written in the same way, so it
/// tells whether a file is another, without rendering it.
fn ends(file: &TextFile, made: &[Range<u64>]) -> String {
    let mut hash = Sha256::new_with_prefix(file.head());
    if let (Some(first), Some(last)) = (made.first(), made.last()) {
        hash.update(file.row_of(first.start));
        hash.update(file.row_of(last.end - 1));
    }
    hex::encode(hash.finalize())
}

/// Sums a file up and puts that on record.
async fn work_out(app: Arc<App>, batch: BatchId, file: TextFile, made: Vec<Range<u64>>) {
    let worker = Arc::clone(&app);
    let Ok(Some(manifest)) =
        tokio::task::spawn_blocking(move || sum_up(&worker, file, &made)).await
    else {
        return;
    };
    if let Err(error) = app.engine.batches.keep_manifest(batch, &manifest).await {
        warn!(batch = batch.0, "the manifest of batch {} is not on record: {error}", batch.0);
    }
}

/// Renders the file, unless the server stops.
fn sum_up(app: &App, file: TextFile, made: &[Range<u64>]) -> Option<Manifest> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let (layout, ends) = (Layout::new(&file, true, made), ends(&file, made));
    for portion in Slice::whole(file, layout) {
        if app.shutting_down() {
            return None;
        }
        let portion = portion.ok()?;
        hash.update(&portion);
        bytes += portion.len() as u64;
    }
    let sha256 = hex::encode(hash.finalize());
    Some(Manifest { file: FILE.to_owned(), ends, bytes, sha256, at: app.clock.now() })
}
