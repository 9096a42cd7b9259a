//! `GET /api/v1/batches/{id}/events`: progress as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use storage::{BatchId, Scope};

use super::App;
use super::batches::{BatchBody, read_id};
use super::extract::Path;
use super::problem::Problem;
use super::request::as_caller;

/// How often the batch is looked at. Progress has to show twice a second.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How often a comment keeps a quiet connection open.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Follow a batch
///
/// Server-sent events. Each `progress` event is the batch as it is shown elsewhere; the last one, when
/// nothing will happen any more, is named `end`. Whoever connects again gets the present state at once,
/// whatever `Last-Event-ID` says: each event is complete by itself.
#[utoipa::path(get, path = "/api/v1/batches/{id}/events", tag = "Batches",
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = 404, body = Problem)))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let id = read_id(&id)?;
        let tenant = caller.bound_to().map(ToOwned::to_owned);
        // Before the stream begins, so that an unknown batch is a 404.
        app.engine.batches.find(id, tenant.as_deref()).await?;
        let follower = Follower { app: Arc::clone(&app), id, tenant, shown: None, number: 0 };
        let events = stream::unfold(Some(follower), async |follower| follower?.next().await);
        let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("still here");
        Ok(Sse::new(events).keep_alive(keep_alive).into_response())
    })
    .await
}

struct Follower {
    app: Arc<App>,
    id: BatchId,
    tenant: Option<String>,
    /// What was shown last.
    shown: Option<(u64, u64, storage::BatchState)>,
    number: u64,
}

impl Follower {
    /// Waits for the next change. After the end there is none.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Option<Self>)> {
        loop {
            if self.shown.is_some() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            // A store that is away for a moment is no end; the client would only connect again.
            let Ok((batch, live)) =
                self.app.engine.batches.find(self.id, self.tenant.as_deref()).await
            else {
                if self.app.shutting_down() {
                    return None;
                }
                self.shown.get_or_insert((u64::MAX, 0, storage::BatchState::Queued));
                continue;
            };
            let ended = batch.state.is_final();
            let stands = (batch.made, batch.dead_chunks, batch.state);
            if self.shown == Some(stands) && !self.app.shutting_down() {
                continue;
            }
            let changed = self.shown.replace(stands) != Some(stands);
            if !changed {
                // The server goes away; the client connects to another one.
                return None;
            }
            self.number += 1;
            let body = BatchBody::new(batch, &live, self.app.clock.now());
            let event = Event::default()
                .event(if ended { "end" } else { "progress" })
                .id(self.number.to_string())
                .data(serde_json::to_string(&body).expect("a batch is plain data"));
            return Some((Ok(event), (!ended).then_some(self)));
        }
    }
}
