//! Parts of a request, with problem documents where they are wrong.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use super::auth::known_key;
use super::bodies::Refused;
use super::problem::Problem;
use super::{App, documents, reservations};

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

/// Reads a body with documents, which may be larger. Whoever sends it may do so.
pub(super) async fn read_documents_body<B>(body: B, app: &App) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
{
    read_body_of(body, app, documents_body_limit(app)).await
}

/// The largest body that a path takes.
pub(super) fn body_limit_at(path: &str, app: &App) -> usize {
    let takes_documents = path == documents::PATH || reservations::is_confirmation(path);
    if takes_documents { documents_body_limit(app) } else { app.body_limit }
}

fn documents_body_limit(app: &App) -> usize {
    app.documents_body_limit.max(app.body_limit)
}

/// Reads a body to its end, unless it is too large or too slow.
pub(crate) async fn read_body<B>(body: B, app: &App) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
{
    read_body_of(body, app, app.body_limit).await
}

/// The same with another limit.
pub(crate) async fn read_body_of<B>(body: B, app: &App, limit: usize) -> Result<Bytes, Problem>
where
    B: hyper::body::Body<Data = Bytes>,
{
    app.bodies.read(body, limit).await.map_err(|refused| match refused {
        Refused::Silent => {
            let detail = format!("Nothing came for {} s.", app.body_silence.as_secs());
            let status = StatusCode::REQUEST_TIMEOUT;
            Problem::new(status, "body_too_slow", "The body came too slowly", detail)
        }
        Refused::TooLarge => {
            let detail = format!("The body may have {limit} bytes.");
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            Problem::new(status, "body_too_large", "The body is too large", detail)
        }
        Refused::NoRoom => Problem::too_many_bodies(),
        Refused::CutOff => {
            let detail = "The body could not be read to its end.";
            let status = StatusCode::BAD_REQUEST;
            Problem::new(status, "body_cut_off", "Incomplete request", detail)
        }
    })
}
