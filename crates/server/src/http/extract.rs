//! Parts of a request, with problem documents where they are wrong.

use std::pin::pin;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::App;
use super::auth::known_key;
use super::observe::within;
use super::problem::Problem;

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Response> {
        // Nothing has it in its name, and PostgreSQL does not take it as text.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(Problem::invalid("There is a NUL in the query.").into_response());
        }
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|rejection: QueryRejection| {
                Problem::invalid(format!("{}.", rejection.body_text())).into_response()
            })
    }
}

/// The variable part of the path.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Path<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Response> {
        axum::extract::Path::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Path(path)| Self(path))
            .map_err(|rejection: PathRejection| {
                Problem::invalid(format!("{}.", rejection.body_text())).into_response()
            })
    }
}

/// The whole body of somebody who is known, up to the limit of the configuration.
pub(crate) struct Body(pub(crate) Bytes);

impl FromRequest<Arc<App>> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        known_key(request.headers(), &app.engine.keys, app.access)
            .map_err(IntoResponse::into_response)?;
        let body = read_body(request.into_body(), app).await;
        body.map(Self).map_err(IntoResponse::into_response)
    }
}

/// The same for documents, which may be larger.
pub(crate) struct DocumentsBody(pub(crate) Bytes);

impl FromRequest<Arc<App>> for DocumentsBody {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let body = read_documents_body(&head.headers, body, app).await;
        body.map(Self).map_err(IntoResponse::into_response)
    }
}

/// Reads a body with documents, of somebody who is known.
pub(super) async fn read_documents_body<B>(
    headers: &HeaderMap,
    body: B,
    app: &App,
) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    known_key(headers, &app.engine.keys, app.access)?;
    read_body_of(body, app, app.documents_body_limit.max(app.body_limit)).await
}

/// Reads a body to its end, unless it is too large or too slow.
pub(crate) async fn read_body<B>(body: B, app: &App) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    read_body_of(body, app, app.body_limit).await
}

/// The same with another limit.
pub(crate) async fn read_body_of<B>(body: B, app: &App, limit: usize) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let reading = pin!(Limited::new(body, limit).collect());
    let Some(read) = within(app.body_timeout, reading).await else {
        let detail = format!("The body did not arrive within {} s.", app.body_timeout.as_secs());
        let status = StatusCode::REQUEST_TIMEOUT;
        return Err(Problem::new(status, "body_too_slow", "The body came too slowly", detail));
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let detail = format!("The body may have {limit} bytes.");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Err(Problem::new(status, "body_too_large", "The body is too large", detail))
        }
        Err(_) => {
            let detail = "The body could not be read to its end.";
            let status = StatusCode::BAD_REQUEST;
            Err(Problem::new(status, "body_cut_off", "Incomplete request", detail))
        }
    }
}
