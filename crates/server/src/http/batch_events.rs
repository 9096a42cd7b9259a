//! `GET /api/v1/batches/{id}/events`: progress as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use engine::LiveType;
use engine::batches::BatchError;
use futures_util::stream;
use storage::{Batch, BatchState, Scope};

use super::App;
use super::auth::known_key;
use super::batches::{BatchBody, read_id};
use super::extract::Path;
use super::places::{Full, Place, Room};
use super::problem::Problem;
use super::request::as_caller;

/// How often the batch is looked at. Progress has to show twice a second.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The header with the ID of the last event that a client has seen, and the ID of the one that no other
/// follows.
const LAST_EVENT_ID: &str = "last-event-id";
const END: &str = "end";

/// Clients that follow batches of an instance at once.
pub(super) const FOLLOWERS: Room = Room { in_all: 256, per_tenant: 64 };

/// Follow a batch
///
/// Server-sent events. Each `progress` event is the batch as it is shown elsewhere, at least twice a
/// second from the moment when it is begun while there are codes to make, also beside some that have failed;
/// the last one, when nothing will happen any more, is named `end`, and so is its ID. Whoever connects again
/// gets the present state at once, because each event is complete by itself; a browser that has seen the end
/// is told to stop. While there is no news, a comment now and then keeps the connection open
/// (`server.heartbeat_seconds`).
#[utoipa::path(get, path = "/api/v1/batches/{id}/events", tag = "Batches",
    params(("Last-Event-ID" = Option<String>, Header, description = "The ID of the last event before the connection broke off")),
    responses((status = 200, content_type = "text/event-stream", body = String),
        (status = 204, description = "The client has seen the end"),
        (status = 404, body = Problem),
        (status = 503, body = Problem, description = "Too many clients follow batches, or batches of this tenant")))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    as_caller(&app, &headers, Scope::Batch, async |caller| {
        let id = read_id(&id)?;
        let tenant = caller.bound_to().map(ToOwned::to_owned);
        // Before the stream begins, so that an unknown batch is a 404.
        let (batch, live) = app.engine.batches.find(id, tenant.as_deref()).await?;
        // Browsers connect again when an answer is over, unless it is this one.
        if batch.state.is_final() && headers.get(LAST_EVENT_ID).is_some_and(|last| last == END) {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let place = app.followers.enter(live.stored().id_type.tenant()).map_err(no_room)?;
        let headers = headers.clone();
        let keep_alive = KeepAlive::new().interval(app.heartbeat).text("still here");
        let (app, seen, shown) = (Arc::clone(&app), batch, None);
        let follower =
            Follower { app, headers, seen, live, tenant, shown, number: 0, _place: place };
        let events = stream::unfold(Some(follower), async |follower| follower?.next().await);
        Ok(Sse::new(events).keep_alive(keep_alive).into_response())
    })
    .await
}

fn no_room(full: Full) -> Problem {
    Problem::unavailable(match full {
        Full::ForAll => format!("{} clients follow batches here already.", FOLLOWERS.in_all),
        Full::ForTheTenant => {
            let clients = FOLLOWERS.per_tenant;
            format!("{clients} clients follow batches of this tenant here already.")
        }
    })
}

struct Follower {
    app: Arc<App>,
    /// The key is looked at each time: it may be revoked meanwhile.
    headers: HeaderMap,
    /// The batch as it was seen last, and its type.
    seen: Batch,
    live: Arc<LiveType>,
    tenant: Option<String>,
    /// What was shown last.
    shown: Option<Stands>,
    number: u64,
    _place: Place,
}

/// What a client wants to be told of.
type Stands = (u64, u64, BatchState, bool);

impl Follower {
    /// Waits for the next event. After the end there is none.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Option<Self>)> {
        // Whoever has just come is told what was found then.
        if self.number > 0 {
            self.wait_for_news().await?;
        }
        Some(self.tell())
    }

    /// Looks until there is something to tell. None if there will be nothing.
    async fn wait_for_news(&mut self) -> Option<()> {
        let batches = Arc::clone(&self.app.engine.batches);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            known_key(&self.headers, &self.app.engine.keys, self.app.access).ok()?;
            match batches.look_again(&self.seen, self.tenant.as_deref()).await {
                Ok((batch, live)) => (self.seen, self.live) = (batch, live),
                Err(BatchError::NotFound) => return None,
                // The client connects to another one.
                Err(_) if self.app.shutting_down() => return None,
                // A store that is away for a moment is no end.
                Err(_) => continue,
            }
            let unchanged = self.shown == Some(stands(&self.seen));
            if unchanged && self.app.shutting_down() {
                return None;
            }
            // While codes are made, also beside dead letters, the rate and the time that is left change by
            // themselves.
            let goes_on = self.seen.started_at.is_some() && self.seen.to_make() > 0;
            if !unchanged || goes_on {
                return Some(());
            }
        }
    }

    fn tell(mut self) -> (Result<Event, Infallible>, Option<Self>) {
        self.shown = Some(stands(&self.seen));
        self.number += 1;
        let ended = self.seen.state.is_final();
        let body = BatchBody::new(self.seen.clone(), &self.live, self.app.clock.now());
        let event = Event::default()
            .event(if ended { END } else { "progress" })
            .id(if ended { END.to_owned() } else { self.number.to_string() })
            .data(serde_json::to_string(&body).expect("a batch is plain data"));
        // A client that is told of something all the time would otherwise hold up the end of the process.
        let goes_on = !ended && !self.app.shutting_down();
        (Ok(event), goes_on.then_some(self))
    }
}

fn stands(batch: &Batch) -> Stands {
    (batch.made, batch.dead_chunks, batch.state, batch.recalled.is_some())
}
