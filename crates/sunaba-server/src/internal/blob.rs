//! `GET /internal/v1/blobs/{hash}`: a blob that this node took.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};

use crate::extract::BlobPath;
use crate::{ApiError, AppState};

pub(super) async fn blob(
    State(state): State<AppState>,
    BlobPath(hash): BlobPath,
) -> Result<Response, ApiError> {
    let read = state.parts.blobs.read_here(&hash).await.map_err(|error| {
        tracing::error!(%error, %hash, "a blob could not be read");
        ApiError::unavailable("blobs_unavailable", "blobs cannot be read now; try again")
    })?;
    Ok(read.ok_or_else(|| ApiError::not_found("blob", &hash))?.into_response())
}
