//! `GET /api/v1/sandboxes/{id}/logs`: what its processes printed.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use sunaba_types::SandboxId;

use super::diff::unreadable;
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState};

const DEFAULT_BYTES: u64 = 1024 * 1024;
const MOST_BYTES: i64 = 16 * 1024 * 1024;

/// The end of the raw output.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/logs", tag = "sandboxes", operation_id = "get_logs",
    params(("id" = String, Path), ("bytes" = Option<i64>, Query, minimum = 1, maximum = 16_777_216)),
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn logs(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let bytes = params.number("bytes", 1..=MOST_BYTES).and_then(|n| u64::try_from(n).ok());
    params.finish()?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let source = state.parts.logs.as_ref().ok_or_else(|| {
        ApiError::new(StatusCode::NOT_FOUND, "nothing_to_show", "this server holds no sandboxes")
    })?;
    let output = source.raw_output(&sandbox, bytes.unwrap_or(DEFAULT_BYTES)).await.map_err(unreadable)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], output).into_response())
}
