//! Errors as RFC 9457 problem documents: the one place that maps failures to HTTP.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::RateState;
use engine::batches::BatchError;
use engine::documents::DocumentError;
use engine::error::{AdminError, IssueError};
use engine::keys::KeyError;
use idgen::snowflake::SnowflakeError;
use serde::Serialize;
use storage::StoreError;
use utoipa::ToSchema;

/// Seconds after which a client may try again when the service is not available.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error as every call of the native API reports it (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// A link to the kind of problem.
    #[serde(rename = "type")]
    kind: String,
    /// What kind of problem it is, in a few words.
    #[schema(example = "Unknown ID type")]
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// What happened this time, and what would be right.
    detail: String,
    /// A stable name of the kind of problem, for programs.
    #[schema(example = "unknown_type")]
    code: &'static str,
    /// Each field that is wrong, where several may be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    #[serde(skip)]
    retry_after_seconds: Option<u64>,
    #[serde(skip)]
    rate: Option<RateState>,
}

/// One field that is wrong.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// Path of the field.
    field: String,
    /// What is wrong and what would be right.
    message: String,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: format!("/docs#problem-{code}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            code,
            errors: Vec::new(),
            retry_after_seconds: None,
            rate: None,
        }
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed_json", "Malformed request", detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", "Invalid request", detail)
    }

    pub(crate) fn key_reused(detail: impl Into<String>) -> Self {
        let (status, title) =
            (StatusCode::UNPROCESSABLE_ENTITY, "The idempotency key was used before");
        Self::new(status, "idempotency_key_reused", title, detail)
    }

    pub(crate) fn in_flight() -> Self {
        let detail = "A request with this idempotency key is being worked on; try again later.";
        let (status, title) = (StatusCode::CONFLICT, "The request is in flight");
        Self::new(status, "request_in_flight", title, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        let detail = format!("There is no such {what}.");
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail)
    }

    pub(crate) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "An API key is needed", detail)
    }

    pub(crate) fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, "Not allowed", detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        let title = "Temporarily unavailable";
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", title, detail);
        problem.retry_after(RETRY_AFTER_SECONDS)
    }

    pub(crate) fn timed_out(detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "timeout", "The request took too long", detail)
            .retry_after(RETRY_AFTER_SECONDS)
    }

    pub(crate) fn too_many_requests(rate: RateState) -> Self {
        let detail = format!("The key or its tenant may make {} requests per second.", rate.limit);
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut problem = Self::new(status, "too_many_requests", "Too many requests", detail)
            .retry_after(rate.retry_after_seconds);
        problem.rate = Some(rate);
        problem
    }

    /// Of somebody without a key.
    pub(crate) fn too_many_scans(retry_after_seconds: u64) -> Self {
        let detail = "Too many codes were verified from this address or its network.";
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "too_many_requests", "Too many requests", detail)
            .retry_after(retry_after_seconds)
    }

    pub(crate) fn too_many_downloads(detail: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "too_many_downloads", "Too many downloads", detail)
            .retry_after(RETRY_AFTER_SECONDS)
    }

    pub(crate) fn too_many_bodies() -> Self {
        let detail = "The bodies of other requests take up all the memory that there is for them.";
        let (status, title) = (StatusCode::SERVICE_UNAVAILABLE, "Too much is sent at once");
        Self::new(status, "too_many_bodies", title, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }
}

/// Answers that do not wait for the rest of the request. What is left of it is not read, so the client
/// must not send another one behind it.
const LEAVE_THE_BODY: [StatusCode; 3] =
    [StatusCode::UNAUTHORIZED, StatusCode::REQUEST_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE];

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem is plain data");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(rate) = self.rate {
            super::auth::add_rate_headers(headers, rate);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if LEAVE_THE_BODY.contains(&status) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(ProblemCode(self.code));
        response
    }
}

/// Tells the layer that counts requests what kind of problem a response is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProblemCode(pub(crate) &'static str);

impl From<IssueError> for Problem {
    fn from(error: IssueError) -> Self {
        let detail = format!("{error}.");
        match error {
            IssueError::UnknownType { .. } => {
                Self::new(StatusCode::NOT_FOUND, "unknown_type", "Unknown ID type", detail)
            }
            IssueError::Retired => {
                Self::new(StatusCode::GONE, "retired", "Retired ID type", detail)
            }
            IssueError::Exhausted { .. }
            | IssueError::Snowflake(SnowflakeError::LifetimeOver)
            | IssueError::Date(_) => {
                Self::new(StatusCode::GONE, "exhausted", "The ID type is exhausted", detail)
            }
            IssueError::Gapless => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "gapless",
                "The type gives its numbers to documents",
                detail,
            ),
            IssueError::Count { .. } | IssueError::NoCounter => Self::invalid(detail),
            IssueError::PoolEmpty => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "pool_empty", "The pool is empty", detail)
                    .retry_after(RETRY_AFTER_SECONDS)
            }
            IssueError::Unavailable(_) | IssueError::Closed | IssueError::Snowflake(_) => {
                Self::unavailable(detail)
            }
        }
    }
}

impl From<BatchError> for Problem {
    fn from(error: BatchError) -> Self {
        let detail = format!("{error}.");
        let conflict = |code, title| Self::new(StatusCode::CONFLICT, code, title, detail.clone());
        match error {
            BatchError::Issue(error) => error.into(),
            BatchError::NotFound => Self::not_found("batch"),
            BatchError::NotACodeType(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "not_a_code_type",
                "The ID type has no codes",
                detail,
            ),
            BatchError::Count { .. } => Self::invalid(detail),
            BatchError::OtherOrder => Self::key_reused(detail),
            BatchError::NoRoom { .. } => conflict("no_room", "The space is too small"),
            BatchError::TooDense { .. } => conflict("too_dense", "The codes could be guessed"),
            BatchError::TooManyActive { .. } => {
                conflict("too_many_batches", "Too many batches are under way")
            }
            BatchError::OverQuota { .. } => conflict("over_quota", "The quota is used up"),
            BatchError::Ended(_) => conflict("batch_ended", "The batch has ended"),
        }
    }
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        let detail = format!("{error}.");
        let conflict = |code, title| Self::new(StatusCode::CONFLICT, code, title, detail.clone());
        match error {
            DocumentError::Issue(error) => error.into(),
            DocumentError::NotFound(what) => Self::not_found(what),
            DocumentError::NoSink => conflict("no_sink", "There is no sink"),
            DocumentError::Conflict { .. } => {
                conflict("reference_taken", "The reference belongs to another document")
            }
            DocumentError::NotHeld(_) => conflict("not_held", "The number is not held any more"),
            DocumentError::Gapless => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "gapless",
                "The type is gapless",
                detail,
            ),
        }
    }
}

impl From<AdminError> for Problem {
    fn from(error: AdminError) -> Self {
        let detail = format!("{error}.");
        match error {
            AdminError::NotFound(what) => Self::not_found(what),
            AdminError::Invalid(errors) => {
                let mut problem = Self::invalid(detail);
                problem.errors = errors
                    .0
                    .into_iter()
                    .map(|error| FieldProblem { field: error.field, message: error.message })
                    .collect();
                problem
            }
            AdminError::Refused(_) => Self::invalid(detail),
            AdminError::Frozen(_) => Self::new(
                StatusCode::CONFLICT,
                "settings_are_fixed",
                "The settings are fixed",
                detail,
            ),
            AdminError::KeyDiffers(_) => {
                Self::new(StatusCode::CONFLICT, "exists", "It exists already", detail)
            }
            AdminError::InUse => Self::new(StatusCode::CONFLICT, "in_use", "Still in use", detail),
            AdminError::MasterKey(_) => Self::unavailable(detail),
            AdminError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(what) => Self::not_found(what),
            StoreError::Exists(what) => {
                let detail = format!("There is a {what} with this name already.");
                Self::new(StatusCode::CONFLICT, "exists", "It exists already", detail)
            }
            other => Self::unavailable(format!("{other}.")),
        }
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        Self::unauthorized(format!("{error}."))
    }
}
