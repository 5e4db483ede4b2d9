//! The endpoints, one in each file: what it takes, what it answers, how.

pub(crate) mod agents;
pub(crate) mod blobs;
mod execution;
pub(crate) mod live;
mod models;
pub(crate) mod ops;
pub(crate) mod projects;
pub(crate) mod sandboxes;
pub(crate) mod system;
pub(crate) mod tasks;
pub(crate) mod tickets;
pub(crate) mod tokens;
mod usage;
mod views;

pub(crate) use sandboxes::diff::{text, unreadable};
pub(crate) use sandboxes::steps::base;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::ApiError;

/// The largest body of a request that is not an event, a batch or a blob.
pub(crate) const SMALL_BODY: usize = 2 * 1024 * 1024;

/// The longest title, in bytes.
pub(crate) const TITLE_BYTES: usize = 1024;
/// The longest prompt or description, in bytes. A worker gets it as an environment variable, which the
/// kernel bounds at 128 KiB with its name.
pub(crate) const PROMPT_BYTES: usize = 100 * 1024;

/// The result of a handler.
pub(crate) type ApiResult = Result<Response, ApiError>;

/// Answers with JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> ApiResult {
    let text = serde_json::to_vec(body).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        ApiError::internal()
    })?;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Answers 200 with JSON.
pub(crate) fn ok<T: Serialize>(body: &T) -> ApiResult {
    json(StatusCode::OK, body)
}

/// Answers 201 with JSON.
pub(crate) fn created<T: Serialize>(body: &T) -> ApiResult {
    json(StatusCode::CREATED, body)
}
