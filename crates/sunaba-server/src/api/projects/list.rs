//! `GET /api/v1/projects`: the projects the caller may see.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::ProjectId;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::ProjectView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::Params;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectList {
    projects: Vec<ProjectView>,
    /// Give it as `after` to go on.
    next_cursor: Option<String>,
}

/// Projects, by id.
#[utoipa::path(get, path = "/api/v1/projects", tag = "projects", operation_id = "list_projects",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 500), ("after" = Option<String>, Query)),
    responses((status = 200, body = ProjectList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    mut params: Params,
) -> ApiResult {
    let limit = params.limit(100, 500);
    let after = params.parsed("after", ProjectId::parse);
    params.finish()?;
    let visible = identity.visible_projects();
    let projects = state.store().list_projects(visible.as_deref(), after.as_ref(), limit).await?;
    let full = projects.len() >= limit as usize;
    let next_cursor = projects.last().filter(|_| full).map(|project| project.id.to_string());
    let mut shown = Vec::with_capacity(projects.len());
    for project in projects {
        shown.push(ProjectView::of(&state, project).await?);
    }
    ok(&ProjectList { projects: shown, next_cursor })
}
