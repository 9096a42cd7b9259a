//! Somebody who is told what happened: a real HTTP server that does as the test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::wait_until;

/// A message that came in.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Whether a secret has signed it, by an implementation that is not ours.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret).unwrap();
        webhook.verify(self.text.as_bytes(), &self.headers).is_ok()
    }
}

/// What to answer: a status and perhaps a header.
type Answer = (u16, Option<(&'static str, String)>);

#[derive(Default)]
struct Shared {
    messages: Mutex<Vec<Message>>,
    answer: Mutex<Option<Answer>>,
    /// Whether answers wait.
    held: watch::Sender<bool>,
    /// Whether connections end without an answer.
    cut_off: AtomicBool,
}

/// Serves until the runtime ends.
pub(super) fn serve(router: Router) -> (SocketAddr, Runtime) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    (address, runtime)
}

/// A server that takes messages.
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Ends with this.
    _runtime: Runtime,
}

impl Receiver {
    /// One that takes everything.
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(take).with_state(Arc::clone(&shared));
        let (address, runtime) = serve(router);
        Self { shared, address, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on it answers so.
    pub(crate) fn answer(&self, status: u16) {
        *self.shared.answer.lock().unwrap() = Some((status, None));
    }

    /// The same with a header.
    pub(crate) fn answer_with(&self, status: u16, name: &'static str, value: &str) {
        *self.shared.answer.lock().unwrap() = Some((status, Some((name, value.to_owned()))));
    }

    /// From now on messages come in, and no answer goes out.
    pub(crate) fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Lets all answers go out.
    pub(crate) fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// From now on messages come in, and their connections end without an answer; or not any more.
    pub(crate) fn cut_off(&self, cut_off: bool) {
        self.shared.cut_off.store(cut_off, Ordering::SeqCst);
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        self.shared.messages.lock().unwrap().clone()
    }

    /// Waits until so many messages have come in, and returns them.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Message> {
        wait_until(&format!("{count} messages have come in"), || self.messages().len() >= count);
        self.messages()
    }
}

async fn take(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    shared.messages.lock().unwrap().push(Message { headers, text, body });
    if shared.cut_off.load(Ordering::SeqCst) {
        // The task of the connection ends, and the connection with it.
        std::panic::resume_unwind(Box::new("cut off"));
    }
    let _ = shared.held.subscribe().wait_for(|held| !held).await;
    let (status, header) = shared.answer.lock().unwrap().clone().unwrap_or((204, None));
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = header {
        headers.insert(name, value.parse().unwrap());
    }
    (StatusCode::from_u16(status).unwrap(), headers)
}
