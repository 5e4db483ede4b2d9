//! `GET /api/v1/sandboxes/{id}`.

use axum::extract::State;
use sunaba_types::SandboxId;

use crate::AppState;
use crate::api::views::SandboxView;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::IdPath;

/// One sandbox.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "get_sandbox",
    params(("id" = String, Path)), responses((status = 200, body = SandboxView)))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    ok(&SandboxView::from(visible_sandbox(&state, &identity, &id).await?))
}
