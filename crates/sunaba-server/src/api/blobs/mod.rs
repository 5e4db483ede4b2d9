//! Large content by hash.

pub(crate) mod fetch;
pub(crate) mod upload;

use axum::body::Body;
use futures::StreamExt as _;
use http::StatusCode;
use serde::Serialize;
use sunaba_store::Writer;
use sunaba_types::{BlobHash, Sandbox, SandboxId};
use utoipa::ToSchema;

use crate::{ApiError, AppState, BlobError};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BlobStored {
    /// SHA-256 of the content, in hexadecimal.
    pub(crate) hash: String,
    pub(crate) size_bytes: u64,
}

/// Keeps a body as a blob and records whose it is. In a task of its own: a client that goes away in between must not
/// leave a file that is nobody's.
pub(crate) async fn keep(
    state: &AppState,
    body: Body,
    owner: Option<Sandbox>,
    by: Writer,
) -> Result<BlobStored, ApiError> {
    let work = state.tasks.spawn(keep_whole(state.clone(), body, owner, by));
    work.await.unwrap_or_else(|_| Err(ApiError::internal()))
}

async fn keep_whole(
    state: AppState,
    body: Body,
    owner: Option<Sandbox>,
    by: Writer,
) -> Result<BlobStored, ApiError> {
    let pause = state.config().limits.body_timeout;
    let mut share = state.room.share(owner.as_ref())?;
    let mut no_room = None;
    let pieces = body.into_data_stream().map(|piece| {
        let piece = piece.map_err(drop)?;
        share.take(piece.len() as u64).map_err(|error| no_room = Some(error))?;
        Ok::<_, ()>(piece)
    });
    let stored = state.parts.blobs.put_fresh(pieces, pause).await;
    if let Some(error) = no_room {
        return Err(error);
    }
    let fresh = stored.map_err(refusal)?;
    let size = i64::try_from(fresh.size_bytes).unwrap_or(i64::MAX);
    let id = owner.as_ref().map(|sandbox| &sandbox.id);
    let recorded = state.store().record_blob(&fresh.hash, size, id, by).await;
    let (hash, size_bytes, is_new) = (fresh.hash, fresh.size_bytes, fresh.is_new);
    drop(fresh.stays);
    let mut stays = is_new;
    if recorded.is_err() {
        let owners = async { state.store().blob_owners(&hash).await.map(|owners| !owners.is_empty()) };
        stays &= !state.parts.blobs.remove_unless(&hash, owners).await;
    }
    // What was there before costs nothing, and what is gone again neither.
    if stays {
        share.keep();
    }
    recorded?;
    Ok(BlobStored { hash: hash.into(), size_bytes })
}

/// Removes a blob that a sandbox gave up, unless somebody else owns it, and gives its room back.
pub(crate) async fn forget(state: &AppState, id: &SandboxId, hash: &BlobHash) {
    // Otherwise another node has it, and counts it.
    let Ok(Some((_, size))) = state.parts.blobs.open_here(hash).await else { return };
    let owners = async { state.store().blob_owners(hash).await.map(|owners| !owners.is_empty()) };
    if state.parts.blobs.remove_unless(hash, owners).await {
        state.room.give_back(id, size);
    }
}

fn refusal(error: BlobError) -> ApiError {
    match error {
        BlobError::TooLarge => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "blob_too_large", error.to_string())
        }
        BlobError::Interrupted => {
            ApiError::new(StatusCode::BAD_REQUEST, "body_incomplete", error.to_string())
        }
        BlobError::Io(cause) => {
            tracing::error!(error = %cause, "a blob could not be written");
            ApiError::unavailable("blobs_unavailable", "blobs cannot be written now; try again")
        }
    }
}
