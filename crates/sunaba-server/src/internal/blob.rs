//! `GET /internal/v1/blobs/{hash}`: a blob that this node took.

use axum::extract::State;
use axum::response::Response;

use crate::api::blobs::fetch::{shown, unreadable};
use crate::extract::BlobPath;
use crate::{ApiError, AppState};

pub(super) async fn blob(
    State(state): State<AppState>,
    BlobPath(hash): BlobPath,
) -> Result<Response, ApiError> {
    let opened = state.parts.blobs.open_here(&hash).await.map_err(|error| unreadable(&hash, &error))?;
    Ok(shown(opened.ok_or_else(|| ApiError::not_found("blob", &hash))?))
}
