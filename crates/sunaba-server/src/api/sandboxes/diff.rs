//! `GET /api/v1/sandboxes/{id}/diff`: what the sandbox changed.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use sunaba_types::SandboxId;

use crate::auth::{Reader, visible_sandbox};
use crate::extract::IdPath;
use crate::{ApiError, AppState, SourceError};

/// The unified diff between the commit the sandbox started from and what it made of it.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/diff", tag = "sandboxes", operation_id = "get_diff",
    params(("id" = String, Path)), responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn diff(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
) -> Result<Response, ApiError> {
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let source = state.parts.diffs.as_ref().ok_or_else(|| absent("this server holds no repositories"))?;
    let text = source.diff(&sandbox).await.map_err(unreadable)?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

fn absent(detail: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "nothing_to_show", detail)
}

/// Why a source gave nothing, as an error.
pub(crate) fn unreadable(error: SourceError) -> ApiError {
    match error {
        SourceError::Absent(why) => absent(&why),
        SourceError::Failed(cause) => {
            tracing::error!(error = %cause, "a source of the sandbox could not be read");
            ApiError::unavailable("source_unavailable", "this cannot be read now; try again")
        }
    }
}
