//! `DELETE /api/v1/projects/{id}/secrets/{name}`: forgets a secret. Needs no key.

use axum::extract::State;
use http::StatusCode;

use crate::api::projects;
use crate::auth::Editor;
use crate::extract::SecretPath;
use crate::{ApiError, AppState};

/// Forgets a secret; 404 if there is none.
#[utoipa::path(delete, path = "/api/v1/projects/{id}/secrets/{name}", tag = "projects", operation_id = "delete_secret",
    params(("id" = String, Path), ("name" = String, Path, pattern = "^[A-Z][A-Z0-9_]{0,99}$")), responses((status = 204, description = "It is gone")))]
pub(crate) async fn delete(
    State(state): State<AppState>,
    Editor(identity): Editor,
    SecretPath { project, name }: SecretPath,
) -> Result<StatusCode, ApiError> {
    projects::visible(&state, &identity, &project).await?;
    match state.store().delete_secret(&project, &name).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found("secret", name)),
    }
}
