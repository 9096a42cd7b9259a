//! What every call has in common: identify the caller, read the body, repeat an answer.

use std::future::ready;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::answers::{KEY_CHARS_MAX, Known};
use serde::Deserialize;
use serde_json::error::Category;
use storage::{Answer, Scope};

use super::App;
use super::auth::{Caller, add_rate_headers};
use super::problem::Problem;

/// The header that makes a repeated request harmless.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Reads a JSON body: not JSON is 400, JSON of another shape is 422.
pub(crate) fn read_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    // A struct could also be read from a list of its values; nobody should rely on their order.
    if body.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::invalid("The body must be an object."));
    }
    serde_json::from_slice(body).map_err(|error| match error.classify() {
        Category::Data => Problem::invalid(format!("{error}.")),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::malformed(format!("The body is not JSON: {error}."))
        }
    })
}

/// Reads the number of something that a path names. What cannot be one is not there.
pub(super) fn read_number(text: &str, what: &str) -> Result<i64, Problem> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| Problem::not_found(what))
}

/// A JSON body on its way out.
#[derive(Debug)]
pub(crate) struct JsonBody {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Vec<u8>,
}

impl JsonBody {
    pub(crate) fn new(status: StatusCode, value: &impl serde::Serialize) -> Self {
        let bytes = serde_json::to_vec(value).expect("answers are plain data");
        Self { status, bytes }
    }

    pub(crate) fn ok(value: &impl serde::Serialize) -> Self {
        Self::new(StatusCode::OK, value)
    }
}

impl IntoResponse for JsonBody {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        (self.status, [(header::CONTENT_TYPE, json)], self.bytes).into_response()
    }
}

/// Runs a call for an identified caller and adds where it stands with its rate limit.
pub(crate) async fn as_caller<R: IntoResponse>(
    app: &App,
    headers: &HeaderMap,
    scope: Scope,
    work: impl AsyncFnOnce(&Caller) -> Result<R, Problem>,
) -> Response {
    let caller = match Caller::identify(headers, &app.engine.keys, app.access, scope) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let mut response = match work(&caller).await {
        Ok(response) => response.into_response(),
        Err(problem) => problem.into_response(),
    };
    if let Some(rate) = caller.rate {
        add_rate_headers(response.headers_mut(), rate);
    }
    response
}

/// Runs a POST for an identified caller, [once](once()) for an idempotency key. `about` is what its path
/// names: a key that comes with another one was used before, as with another body.
pub(crate) async fn post_once<F>(
    app: &Arc<App>,
    headers: &HeaderMap,
    scope: Scope,
    call: &str,
    about: &str,
    body: Bytes,
    work: impl FnOnce(Arc<App>, Caller, Bytes) -> F,
) -> Response
where
    F: Future<Output = Result<JsonBody, Problem>> + Send + 'static,
{
    post_read_once(app, headers, scope, call, about, ready(Ok(body)), work).await
}

/// The same with a body that is only read for somebody who may send it, and not too often.
pub(crate) async fn post_read_once<F>(
    app: &Arc<App>,
    headers: &HeaderMap,
    scope: Scope,
    call: &str,
    about: &str,
    body: impl Future<Output = Result<Bytes, Problem>>,
    work: impl FnOnce(Arc<App>, Caller, Bytes) -> F,
) -> Response
where
    F: Future<Output = Result<JsonBody, Problem>> + Send + 'static,
{
    as_caller(app, headers, scope, async |caller| {
        let body = body.await?;
        // Most requests have no key, and then nobody compares what they asked for.
        let request = if headers.contains_key(IDEMPOTENCY_KEY) {
            Bytes::from([about.as_bytes(), b"\n", &body].concat())
        } else {
            Bytes::new()
        };
        let work = work(Arc::clone(app), caller.clone(), body);
        once(app, headers, caller, call, request, work).await
    })
    .await
}

/// Runs a POST. With an idempotency key it is run once, and its answer is kept before it is sent. It
/// then runs to its end even if the client goes away, because the client may come back for it.
pub(crate) async fn once(
    app: &Arc<App>,
    headers: &HeaderMap,
    caller: &Caller,
    call: &str,
    body: Bytes,
    work: impl Future<Output = Result<JsonBody, Problem>> + Send + 'static,
) -> Result<Response, Problem> {
    let Some(key) = idempotency_key(headers)? else { return Ok(work.await?.into_response()) };
    let (scope, key) = (format!("{} {call}", caller.scope()), key.to_owned());
    let app = Arc::clone(app);
    let run = tokio::spawn(async move { run_or_repeat(&app, scope, key, &body, work).await });
    run.await.unwrap_or_else(|_| Err(Problem::unavailable("The request was interrupted.")))
}

async fn run_or_repeat(
    app: &App,
    scope: String,
    key: String,
    body: &[u8],
    work: impl Future<Output = Result<JsonBody, Problem>>,
) -> Result<Response, Problem> {
    let claim = match app.engine.answers.look_up(scope, key, body).await? {
        Known::New(claim) => claim,
        Known::Answered(answer) => return Ok(repeated(answer)),
        Known::InFlight => return Err(Problem::in_flight()),
        Known::OtherBody => {
            let detail = "This idempotency key was used for a request with another body.";
            return Err(Problem::key_reused(detail));
        }
    };
    match work.await {
        Ok(answer) => {
            let kept = Answer { status: answer.status.as_u16(), body: answer.bytes.clone() };
            app.engine.answers.keep(claim, &kept).await?;
            Ok(answer.into_response())
        }
        Err(problem) => {
            app.engine.answers.release(claim).await;
            Err(problem)
        }
    }
}

fn repeated(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = JsonBody { status, bytes: answer.body }.into_response();
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}

/// For calls that answer with a secret: to give it again it would have to be stored. Whoever sends a key
/// counts on it, so it is not passed over in silence.
pub(super) fn refuse_idempotency_key(headers: &HeaderMap) -> Result<(), Problem> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(());
    }
    let detail = "The answer has a secret, which is not kept, so it cannot be given again. Send the \
                  request without Idempotency-Key, and look at what there is before you repeat it.";
    let (status, title) =
        (StatusCode::UNPROCESSABLE_ENTITY, "An idempotency key cannot be honoured here");
    Err(Problem::new(status, "idempotency_key_refused", title, detail))
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let usable = |key: &&str| !key.is_empty() && key.len() <= KEY_CHARS_MAX;
    value.to_str().ok().map(str::trim).filter(usable).map(Some).ok_or_else(|| {
        let detail =
            format!("Idempotency-Key must have 1 to {KEY_CHARS_MAX} visible ASCII characters.");
        Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", "Invalid header", detail)
    })
}
