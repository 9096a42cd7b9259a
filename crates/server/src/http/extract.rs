//! Parts of a request, with problem documents where they are wrong.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;

use super::App;
use super::problem::Problem;

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Query<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<App>) -> Result<Self, Response> {
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

/// The whole body, up to the limit of the configuration.
pub(crate) struct Body(pub(crate) Bytes);

impl FromRequest<Arc<App>> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Response> {
        let limit = app.body_limit;
        axum::body::to_bytes(request.into_body(), limit).await.map(Self).map_err(|error| {
            let source = std::error::Error::source(&error);
            let too_large = source.is_some_and(<dyn std::error::Error>::is::<LengthLimitError>);
            let problem = if too_large {
                let detail = format!("The body may have {limit} bytes.");
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                Problem::new(status, "body_too_large", "The body is too large", detail)
            } else {
                let detail = "The body could not be read to its end.";
                Problem::new(StatusCode::BAD_REQUEST, "body_cut_off", "Incomplete request", detail)
            };
            problem.into_response()
        })
    }
}
