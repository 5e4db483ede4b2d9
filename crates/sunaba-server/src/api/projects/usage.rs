//! `GET /api/v1/projects/{id}/usage`: what all its model calls took and cost.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::Spender;
use sunaba_types::ProjectId;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::usage::{Budget, ModelUse};
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::IdPath;

/// What a project used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProjectUsage {
    project_id: String,
    /// The model calls of all its sandboxes.
    model: ModelUse,
    /// The budget of all its tasks together; none without a bound.
    budget: Option<Budget>,
}

/// What a project used.
#[utoipa::path(get, path = "/api/v1/projects/{id}/usage", tag = "projects", operation_id = "get_project_usage",
    params(("id" = String, Path)), responses((status = 200, body = ProjectUsage)))]
pub(crate) async fn usage(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<ProjectId>,
) -> ApiResult {
    let project = super::visible(&state, &identity, &id).await?;
    let sum = state.store().spending(&Spender::Project(id.clone())).await?;
    let budget = project.settings.total_budget_usd.map(|usd| Budget::new(usd, &sum));
    ok(&ProjectUsage { project_id: id.into(), model: sum.into(), budget })
}
