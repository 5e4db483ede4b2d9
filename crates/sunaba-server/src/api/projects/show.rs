//! `GET /api/v1/projects/{id}`.

use axum::extract::State;
use sunaba_types::ProjectId;

use crate::AppState;
use crate::api::views::ProjectView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::IdPath;

/// One project.
#[utoipa::path(get, path = "/api/v1/projects/{id}", tag = "projects", operation_id = "get_project",
    params(("id" = String, Path)), responses((status = 200, body = ProjectView)))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<ProjectId>,
) -> ApiResult {
    let project = super::visible(&state, &identity, &id).await?;
    ok(&ProjectView::of(&state, project).await?)
}
