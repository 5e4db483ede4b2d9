//! Large content by hash.

pub(crate) mod fetch;
pub(crate) mod upload;

use axum::body::Body;
use http::StatusCode;
use serde::Serialize;
use sunaba_store::Writer;
use sunaba_types::SandboxId;
use utoipa::ToSchema;

use crate::{ApiError, AppState, BlobError};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BlobStored {
    /// SHA-256 of the content, in hexadecimal.
    hash: String,
    size_bytes: u64,
}

/// Keeps a body as a blob and records whose it is.
pub(crate) async fn keep(
    state: &AppState,
    body: Body,
    owner: Option<&SandboxId>,
    by: Writer,
) -> Result<BlobStored, ApiError> {
    let pause = state.config().limits.body_timeout;
    let stored = state.parts.blobs.put_stream(body.into_data_stream(), pause).await;
    let (hash, size_bytes) = stored.map_err(|error| match error {
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
    })?;
    let size = i64::try_from(size_bytes).unwrap_or(i64::MAX);
    state.store().record_blob(&hash, size, owner, by).await?;
    Ok(BlobStored { hash: hash.into(), size_bytes })
}
