//! `GET /api/v1/batches/{id}/manifest`: proof that a file is the one that was made.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use storage::{Batch, Scope};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::ToSchema;

use super::columns::Column;
use super::ended_batch;
use super::layout::{Layout, Slice};
use super::rows::Rows;
use super::text::{TextFile, TextFormat};
use crate::http::App;
use crate::http::extract::Path;
use crate::http::problem::Problem;
use crate::http::request::{JsonBody, as_caller};

/// Manifests that are remembered. Each can be worked out again.
const KEPT_MAX: usize = 10_000;

/// Manifests that are worked out at the same time: each takes a core.
const AT_ONCE: usize = 1;

/// What a batch has come to.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ManifestBody {
    batch: String,
    /// `ready`, or `computing` while it is worked out; ask again then.
    #[schema(value_type = String)]
    state: &'static str,
    /// Codes in the file.
    count: u64,
    first_serial: String,
    last_serial: String,
    /// Which file the digest is of: `?format=csv` with the column `code`, not compressed.
    file: &'static str,
    /// Its size; null while it is worked out.
    bytes: Option<u64>,
    /// Its SHA-256, in hexadecimal digits; null while it is worked out.
    sha256: Option<String>,
}

/// What was worked out.
#[derive(Debug, Clone)]
struct Sum {
    bytes: u64,
    sha256: String,
}

/// Manifests that are ready, and room for working one out.
pub(in crate::http) struct Manifests {
    /// By the tag of the file.
    sums: Mutex<HashMap<String, Sum>>,
    places: Arc<Semaphore>,
}

impl Default for Manifests {
    fn default() -> Self {
        Self { sums: Mutex::default(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Manifests {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Sum>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sum of a file.
    fn ready(&self, etag: &str) -> Option<Sum> {
        self.lock().get(etag).cloned()
    }

    /// A place to work one out. Nobody queues for it: whoever asks again may find one then, and no
    /// tenant has more than its turn.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    fn keep(&self, etag: String, sum: Sum) {
        let mut sums = self.lock();
        if sums.len() >= KEPT_MAX {
            sums.clear();
        }
        sums.insert(etag, sum);
    }
}

/// Show the manifest of a batch
///
/// Worked out in the background when it is asked for the first time: 202 until it is ready.
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
        let etag = file.etag(true, &made);
        let sum = app.manifests.ready(&etag);
        if sum.is_none()
            && let Some(place) = app.manifests.place()
        {
            tokio::spawn(work_out(Arc::clone(&app), file, made, etag, place));
        }
        let status = if sum.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        Ok(JsonBody::new(status, &body(&batch, sum)))
    })
    .await
}

fn body(batch: &Batch, sum: Option<Sum>) -> ManifestBody {
    ManifestBody {
        batch: batch.id.0.to_string(),
        state: if sum.is_some() { "ready" } else { "computing" },
        count: batch.made,
        first_serial: batch.serials.start.to_string(),
        last_serial: batch.serials.end.saturating_sub(1).to_string(),
        file: "format=csv&columns=code",
        bytes: sum.as_ref().map(|sum| sum.bytes),
        sha256: sum.map(|sum| sum.sha256),
    }
}

async fn work_out(
    app: Arc<App>,
    file: TextFile,
    made: Vec<Range<u64>>,
    etag: String,
    _place: OwnedSemaphorePermit,
) {
    let layout = Layout::new(&file, true, &made);
    let worker = Arc::clone(&app);
    let sum = tokio::task::spawn_blocking(move || digest(&worker, Slice::whole(file, layout)));
    // If anything goes wrong, whoever asks again starts it again.
    if let Ok(Some(sum)) = sum.await {
        app.manifests.keep(etag, sum);
    }
}

/// Renders the file and sums it up, unless the server stops.
fn digest(app: &App, file: Slice) -> Option<Sum> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    for portion in file {
        if app.shutting_down() {
            return None;
        }
        let portion = portion.ok()?;
        hash.update(&portion);
        bytes += portion.len() as u64;
    }
    Some(Sum { bytes, sha256: hex::encode(hash.finalize()) })
}
