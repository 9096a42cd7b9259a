//! The HTTP API: one file per resource.

mod audit;
mod auth;
mod batch_events;
mod batch_file;
mod batches;
mod bodies;
mod code_scans;
mod dead_letters;
mod deliveries;
mod docs;
mod documents;
mod extract;
mod gaps;
mod history;
mod ids;
mod issuances;
mod keys;
mod metrics;
mod observe;
mod openapi;
mod openg2p;
mod operation;
mod pace;
mod paging;
mod places;
mod pools;
mod problem;
mod public;
mod readings;
mod request;
mod reservations;
mod scan_body;
mod scans;
mod sinks;
mod symbols;
mod tenants;
mod types;
mod unread;
mod webhooks;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use engine::Engine;
use engine::surroundings::Clock;
use hyper::body::Incoming;
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) use auth::Access;
pub(crate) use keys::KeyBody;
pub(crate) use openapi::document as openapi_document;
pub(crate) use public::{Public, PublicParts};

use self::bodies::Bodies;
use self::extract::body_limit_at;
use self::metrics::ServerMetrics;
use self::observe::{FailureLog, RequestIds};
use self::places::Places;
use self::problem::Problem;
use self::unread::{RequestBody, SharedBody, read_up};

/// What this executable was built from.
#[derive(Debug, Clone)]
pub(crate) struct Build {
    pub(crate) version: &'static str,
    pub(crate) time: &'static str,
    pub(crate) commit: &'static str,
}

/// What the handlers share.
pub(crate) struct App {
    parts: AppParts,
    metrics: ServerMetrics,
    request_ids: RequestIds,
    failures: FailureLog,
    started: Instant,
    shutting_down: AtomicBool,
    bodies: Bodies,
    /// The sums of files.
    sums: Arc<batch_file::Sums>,
    /// Room for clients that follow batches.
    followers: Arc<Places>,
    /// Room for downloads.
    downloads: Arc<Places>,
    /// When the store was last found to work.
    last_check: tokio::sync::Mutex<Option<Instant>>,
}

/// What an [`App`] is made from.
pub(crate) struct AppParts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) instance: String,
    pub(crate) access: Access,
    pub(crate) body_limit: usize,
    /// For how long a client may send nothing of a body.
    pub(crate) body_silence: Duration,
    /// Bytes of all bodies at once.
    pub(crate) bodies_max: usize,
    pub(crate) request_timeout: Duration,
    /// How often a comment keeps a quiet stream of events open.
    pub(crate) heartbeat: Duration,
    pub(crate) log_requests: bool,
    pub(crate) build: Build,
    /// What strangers may ask; nothing where it is none.
    pub(crate) public: Option<Public>,
    /// Bytes of the largest body with documents, and of the largest payload of one.
    pub(crate) documents_body_limit: usize,
    pub(crate) payload_max: usize,
    /// The most documents of one call.
    pub(crate) documents_max: usize,
    /// For how long an ID is held where nobody says so.
    pub(crate) hold_seconds: u32,
    /// What OpenG2P's `/config` route shows.
    pub(crate) openg2p_config: Value,
}

impl std::ops::Deref for App {
    type Target = AppParts;

    fn deref(&self) -> &AppParts {
        &self.parts
    }
}

impl App {
    pub(crate) fn new(parts: AppParts) -> Arc<Self> {
        let metrics = ServerMetrics::new(&parts.engine.metrics, openapi::routes());
        Arc::new(Self {
            request_ids: RequestIds::new(&parts.instance),
            bodies: Bodies::new(parts.bodies_max, parts.body_silence),
            parts,
            metrics,
            failures: FailureLog::default(),
            started: Instant::now(),
            shutting_down: AtomicBool::new(false),
            sums: Arc::default(),
            followers: Places::new(batch_events::FOLLOWERS),
            downloads: Places::new(batch_file::DOWNLOADS),
            last_check: tokio::sync::Mutex::default(),
        })
    }

    /// Whether the store can write. Asked at most once a second, so that probes cost nothing.
    async fn check(&self) -> Result<(), engine::error::IssueError> {
        let mut last = self.last_check.lock().await;
        if last.is_some_and(|at| at.elapsed() < Duration::from_secs(1)) {
            return Ok(());
        }
        *last = None;
        self.engine.check().await?;
        *last = Some(Instant::now());
        Ok(())
    }

    /// From now on `/readyz` says that the server is going away.
    pub(crate) fn begin_shutdown(&self) {
        self.shutting_down.store(true, Ordering::Release);
    }

    fn shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }
}

/// Everything that answers requests.
#[derive(Clone)]
pub(crate) struct Api {
    app: Arc<App>,
    router: Router,
    /// Whether this is more than a worker.
    is_whole: bool,
}

impl Api {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self { router: router(Arc::clone(&app)), app, is_whole: true }
    }

    /// Only what those need who watch over the process.
    pub(crate) fn of_worker(app: Arc<App>) -> Self {
        Self { router: worker_router(Arc::clone(&app)), app, is_whole: false }
    }

    /// Answers a request. The most frequent calls do not take the way through the router, which costs as
    /// much as issuing an ID.
    pub(crate) async fn answer(self, mut request: Request<Incoming>, peer: IpAddr) -> Response {
        if self.is_whole && request.method() == Method::POST {
            match request.uri().path() {
                ids::PATH => return self.directly(request, ids::PATH, ids::issue_directly).await,
                // In boxes, because issuing should not move them around.
                documents::PATH => {
                    let assign = documents::assign_directly;
                    return Box::pin(self.directly(request, documents::PATH, assign)).await;
                }
                scans::PATH => {
                    let scan = scans::scan_directly;
                    return Box::pin(self.directly(request, scans::PATH, scan)).await;
                }
                _ => {}
            }
        }
        // Only these care where a request comes from, and the others should not pay for it.
        if request.uri().path().starts_with(public::PREFIX) {
            request.extensions_mut().insert(public::Peer(peer));
        }
        Box::pin(self.by_the_router(request)).await
    }

    async fn by_the_router(self, request: Request<Incoming>) -> Response {
        if hyper::body::Body::is_end_stream(request.body()) {
            let Ok(response) = self.router.oneshot(request.map(Body::new)).await;
            return response;
        }
        let (head, body) = request.into_parts();
        let limit = body_limit_at(head.uri.path(), &self.app);
        let (headers, body) = (head.headers.clone(), SharedBody::new(RequestBody::new(body)));
        let request = Request::from_parts(head, Body::new(body.clone()));
        let Ok(response) = self.router.oneshot(request).await;
        let unread = body.into_inner().and_then(|body| body.unread(&headers, response.headers()));
        if let Some(body) = unread {
            read_up(body, limit, &self.app).await;
        }
        response
    }

    async fn directly(
        self,
        request: Request<Incoming>,
        path: &'static str,
        work: impl AsyncFnOnce(&Arc<App>, &HeaderMap, &mut RequestBody) -> Response,
    ) -> Response {
        let (head, body) = request.into_parts();
        let mut body = RequestBody::new(body);
        let response = {
            let work = pin!(work(&self.app, &head.headers, &mut body));
            observe::observed(&self.app, head.method, path, &head.headers, work).await
        };
        if let Some(body) = body.unread(&head.headers, response.headers()) {
            read_up(body, body_limit_at(path, &self.app), &self.app).await;
        }
        response
    }
}

/// All routes.
fn router(app: Arc<App>) -> Router {
    let (native, _) = openapi::router().split_for_parts();
    native
        .route("/openapi.json", axum::routing::get(openapi::serve))
        .route("/docs", axum::routing::get(docs::page))
        .route("/robots.txt", axum::routing::get(robots))
        .method_not_allowed_fallback(wrong_method)
        .merge(openg2p::router())
        .fallback(no_such_route)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), observe::layer))
        .with_state(app)
}

/// The routes of a process that takes no orders.
fn worker_router(app: Arc<App>) -> Router {
    let (operation, _) = openapi::operation_router().split_for_parts();
    operation
        .fallback(not_on_a_worker)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&app), observe::layer))
        .with_state(app)
}

async fn not_on_a_worker() -> Response {
    let detail = "This process only makes codes; ask one that runs mintage serve.";
    Problem::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail).into_response()
}

/// Nothing here is for search engines, and those that run scripts would count scans.
async fn robots() -> &'static str {
    "User-agent: *\nDisallow: /\n"
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let detail = format!("{} does not take {method}; see /docs.", uri.path());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Wrong method", detail)
        .into_response()
}

async fn no_such_route(uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().starts_with(openg2p::PREFIX) {
        return openg2p::no_such_route(&uri, &headers);
    }
    nothing_at(uri.path())
}

fn nothing_at(path: &str) -> Response {
    let detail = format!("There is nothing at {path}; see /docs.");
    Problem::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail).into_response()
}
