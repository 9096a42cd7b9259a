//! What nobody has read of a request.
//!
//! A request can be answered without a look at its body: the key is not good for it, the path is wrong,
//! or the route has no use for one. A connection with such a body on it cannot be used again, and whoever sends the next
//! request there finds it closed. So the body is read all the same, before the answer goes out.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::http::{HeaderMap, header};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::App;
use super::observe::within;

type PolledFrame = Poll<Option<Result<Frame<Bytes>, hyper::Error>>>;

/// A body that knows whether somebody has begun to read it.
pub(super) struct RequestBody {
    incoming: Incoming,
    begun: bool,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self { incoming, begun: false }
    }

    /// What has to be read before an answer goes out: all, if nobody has begun to and the answer leaves
    /// the connection open. Whoever waits to be asked for the body has not sent it.
    pub(super) fn unread(self, request: &HeaderMap, answer: &HeaderMap) -> Option<Incoming> {
        let is_read = self.begun || self.incoming.is_end_stream();
        let ends = answer.contains_key(header::CONNECTION) || request.contains_key(header::EXPECT);
        (!is_read && !ends).then_some(self.incoming)
    }
}

/// Reads a body to its end. One that is larger than its path takes, or too slow, is left, and its
/// connection closed after all.
pub(super) async fn read_up(body: Incoming, limit: usize, app: &App) {
    within(app.request_timeout, pin!(app.bodies.pass_over(body, limit))).await;
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        self.begun = true;
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// A body for somebody who has to own it, with a second handle for whoever wants it back.
#[derive(Clone)]
pub(super) struct SharedBody(Arc<Mutex<RequestBody>>);

impl SharedBody {
    pub(super) fn new(body: RequestBody) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// The body, once nobody else has it.
    pub(super) fn into_inner(self) -> Option<RequestBody> {
        let body = Arc::into_inner(self.0)?;
        Some(body.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn with<T>(&self, work: impl FnOnce(&mut RequestBody) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        self.with(|body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}
