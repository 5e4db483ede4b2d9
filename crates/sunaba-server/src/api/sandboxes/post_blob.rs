//! `POST /api/v1/sandboxes/{id}/blobs`: content too long for an event.

use axum::body::Body;
use axum::extract::State;
use sunaba_types::SandboxId;

use crate::AppState;
use crate::api::blobs::{BlobStored, keep};
use crate::api::{ApiResult, created};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::IdPath;

/// Stores a blob that belongs to a sandbox. Open to the sandbox itself.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/blobs", tag = "blobs", operation_id = "upload_sandbox_blob",
    params(("id" = String, Path)), request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = BlobStored)))]
pub(crate) async fn post_blob(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
    body: Body,
) -> ApiResult {
    super::may_append(&state, &identity, &id).await?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let by = identity.event_writer(false);
    // Before its bytes are taken, and again when it is recorded.
    state.store().check_standing(&id, by).await?;
    created(&keep(&state, body, Some(sandbox), by).await?)
}
