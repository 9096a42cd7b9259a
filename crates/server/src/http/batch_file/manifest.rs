//! `GET /api/v1/batches/{id}/manifest`: proof that a file is the one that was made.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use storage::{Batch, Scope};
use utoipa::ToSchema;

use super::columns::Column;
use super::ended_batch;
use super::layout::{Layout, Slice};
use super::rows::Rows;
use super::sums::{Standing, Subject, Sum};
use super::text::{TextFile, TextFormat};
use crate::http::App;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::request::{JsonBody, as_caller};

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
    file: &'static str,
    /// Its size; null until it is worked out.
    bytes: Option<u64>,
    /// Its SHA-256, in hexadecimal digits; null until it is worked out.
    sha256: Option<String>,
}

/// Show the manifest of a batch
///
/// Worked out in the background when it is asked for the first time: 202 until it is ready. A tenant has
/// one small and one large file worked out at a time.
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
        let subject = Subject {
            tenant: live.stored().id_type.tenant(),
            codes: batch.made,
            etag: file.etag(true, &made),
        };
        let ends = made.first().zip(made.last()).map(|(first, last)| (first.start, last.end - 1));
        let worker = Arc::clone(&app);
        let standing = app.sums.ask(subject, move || digest(&worker, file, &made));
        let status = match standing {
            Standing::Ready(_) => StatusCode::OK,
            Standing::Computing | Standing::Queued => StatusCode::ACCEPTED,
        };
        Ok(JsonBody::new(status, &body(&batch, ends, standing)))
    })
    .await
}

/// `ends` are the first and the last serial in the file.
fn body(batch: &Batch, ends: Option<(u64, u64)>, standing: Standing) -> ManifestBody {
    let (state, sum) = match standing {
        Standing::Ready(sum) => ("ready", Some(sum)),
        Standing::Computing => ("computing", None),
        Standing::Queued => ("queued", None),
    };
    ManifestBody {
        batch: batch.id.0.to_string(),
        state,
        count: batch.made,
        first_serial: ends.map(|(first, _)| first.to_string()),
        last_serial: ends.map(|(_, last)| last.to_string()),
        file: "format=csv&columns=code",
        bytes: sum.as_ref().map(|sum| sum.bytes),
        sha256: sum.map(|sum| sum.sha256),
    }
}

/// Renders the file and sums it up, unless the server stops.
fn digest(app: &App, file: TextFile, made: &[Range<u64>]) -> Option<Sum> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let layout = Layout::new(&file, true, made);
    for portion in Slice::whole(file, layout) {
        if app.shutting_down() {
            return None;
        }
        let portion = portion.ok()?;
        hash.update(&portion);
        bytes += portion.len() as u64;
    }
    Some(Sum { bytes, sha256: hex::encode(hash.finalize()) })
}
