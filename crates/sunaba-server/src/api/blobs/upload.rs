//! `POST /api/v1/blobs`: content that belongs to no sandbox.

use axum::body::Body;
use axum::extract::State;
use sunaba_store::Writer;

use super::BlobStored;
use crate::AppState;
use crate::api::{ApiResult, created};
use crate::auth::Editor;

/// Stores a blob for an operator.
#[utoipa::path(post, path = "/api/v1/blobs", tag = "blobs", operation_id = "upload_blob",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = BlobStored)))]
pub(crate) async fn upload(State(state): State<AppState>, _: Editor, body: Body) -> ApiResult {
    created(&super::keep(&state, body, None, Writer::Operator).await?)
}
