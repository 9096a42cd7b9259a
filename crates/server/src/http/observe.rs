//! What happens around every request: an ID, a time limit, a count, a line in the log.

use std::future::poll_fn;
use std::io::Write as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::{info, warn};

use super::App;
use super::problem::{Problem, ProblemCode};

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 128;

/// Numbers requests: cheap, and unique among instances.
pub(crate) struct RequestIds {
    prefix: String,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(instance: &str) -> Self {
        let prefix = instance.chars().take(8).collect();
        Self { prefix, next: AtomicU64::new(1) }
    }

    /// The client's ID if it is usable, or a new one.
    fn id_of(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get(&REQUEST_ID).filter(|value| {
            let bytes = value.as_bytes();
            !bytes.is_empty()
                && bytes.len() <= REQUEST_ID_CHARS_MAX
                && bytes.iter().all(u8::is_ascii_graphic)
        });
        sent.cloned().unwrap_or_else(|| {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mut id = [0; 32];
            let mut rest = &mut id[..];
            write!(rest, "{}-{number:x}", self.prefix).expect("8 + 1 + 16 characters fit");
            let free = rest.len();
            HeaderValue::from_bytes(&id[..id.len() - free]).expect("letters, digits and a hyphen")
        })
    }
}

/// Keeps failures from flooding the log: in an outage every request fails.
#[derive(Default)]
pub(crate) struct FailureLog {
    /// The second of the last line, counted from the start of the process.
    second: AtomicU64,
    unsaid: AtomicU64,
}

impl FailureLog {
    /// Whether a failure should be logged now, and how many were not since the last line.
    fn admit(&self, second: u64) -> Option<u64> {
        // The first second of all is 1, so that 0 means never.
        if self.second.swap(second + 1, Ordering::Relaxed) == second + 1 {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.unsaid.swap(0, Ordering::Relaxed))
    }
}

/// Runs a request that has been routed.
pub(super) async fn observed(
    app: &App,
    method: Method,
    route: &str,
    headers: &HeaderMap,
    work: Pin<&mut impl Future<Output = Response>>,
) -> Response {
    let started = Instant::now();
    let id = app.request_ids.id_of(headers);
    let mut response = match within(app.request_timeout, work).await {
        Some(response) => response,
        None => timed_out(app.request_timeout),
    };
    let status = response.status();
    let elapsed = started.elapsed();
    let problem = response.extensions().get::<ProblemCode>().map_or("", |code| code.0);
    app.metrics.count(&method, route, status.as_u16(), problem, elapsed);
    if status.is_server_error() {
        let second = app.started.elapsed().as_secs();
        if let Some(unsaid) = app.failures.admit(second) {
            warn!(request = ?id, %method, route, status = status.as_u16(), problem, unsaid, "{method} {route} failed: {status}");
        }
    } else if app.log_requests {
        let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        info!(request = ?id, %method, route, status = status.as_u16(), elapsed_us, "{method} {route} {status}");
    }
    response.headers_mut().insert(&REQUEST_ID, id);
    response
}

/// The same as a layer around a router.
pub(super) async fn layer(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let headers = request.headers().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    observed(&app, method, route, &headers, pin!(next.run(request))).await
}

/// Runs something within a time limit. What is ready at once needs no timer: all workers share the
/// timers, and most requests never wait for anything.
pub(super) async fn within<T>(
    limit: Duration,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        Poll::Ready(done) => Some(done),
        Poll::Pending => tokio::time::timeout(limit, work).await.ok(),
    }
}

fn timed_out(limit: Duration) -> Response {
    let detail = format!("The request took longer than {} seconds.", limit.as_secs());
    Problem::timed_out(detail).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_said_once_a_second_and_counted() {
        let log = FailureLog::default();
        assert_eq!(log.admit(0), Some(0));
        assert_eq!((log.admit(0), log.admit(0)), (None, None));
        assert_eq!(log.admit(1), Some(2));
        assert_eq!(log.admit(9), Some(0));
    }
}
