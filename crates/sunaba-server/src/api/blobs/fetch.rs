//! `GET /api/v1/blobs/{hash}`: for those who may see one of its owners.

use std::io;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use sunaba_types::BlobHash;
use tokio_util::io::ReaderStream;

use crate::auth::{Identity, Reader, may_see_sandbox};
use crate::extract::BlobPath;
use crate::{ApiError, AppState};

/// The content of a blob.
#[utoipa::path(get, path = "/api/v1/blobs/{hash}", tag = "blobs", operation_id = "get_blob",
    params(("hash" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn fetch(
    State(state): State<AppState>,
    Reader(identity): Reader,
    BlobPath(hash): BlobPath,
) -> Result<Response, ApiError> {
    let absent = || ApiError::not_found("blob", &hash);
    if !may_read(&state, &identity, &hash).await? {
        return Err(absent());
    }
    let opened = state.parts.blobs.open(&hash).await.map_err(|error| unreadable(&hash, &error))?;
    Ok(shown(opened.ok_or_else(absent)?))
}

/// An open blob as an answer.
pub(crate) fn shown((file, size): (tokio::fs::File, u64)) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_DISPOSITION, "attachment".to_owned()),
    ];
    (headers, Body::from_stream(ReaderStream::with_capacity(file, 64 * 1024))).into_response()
}

/// Says why a blob cannot be had.
pub(crate) fn unreadable(hash: &BlobHash, error: &io::Error) -> ApiError {
    tracing::error!(%error, %hash, "a blob could not be read");
    match error.kind() {
        io::ErrorKind::StorageFull => {
            ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", error.to_string())
        }
        _ => ApiError::unavailable("blobs_unavailable", "blobs cannot be read now; try again"),
    }
}

/// Whether the caller may see one of those who stored it.
pub(crate) async fn may_read(
    state: &AppState,
    identity: &Identity,
    hash: &BlobHash,
) -> Result<bool, ApiError> {
    for owner in state.store().blob_owners(hash).await? {
        let visible = match owner {
            // An operator's blob belongs to no project.
            None => identity.visible_projects().is_none(),
            Some(id) => {
                let sandbox = state.store().find_sandbox(&id).await?;
                sandbox.is_some_and(|sandbox| may_see_sandbox(identity, &sandbox))
            }
        };
        if visible {
            return Ok(true);
        }
    }
    Ok(false)
}
