//! `GET /api/v1/sandboxes`.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::SandboxFilter;
use sunaba_types::{ProjectId, SandboxId, SandboxState, TaskId};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::SandboxView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::Params;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxList {
    sandboxes: Vec<SandboxView>,
    /// Give it as `before` to go on.
    next_cursor: Option<String>,
}

/// Sandboxes, newest first.
#[utoipa::path(get, path = "/api/v1/sandboxes", tag = "sandboxes", operation_id = "list_sandboxes",
    params(("state" = Option<String>, Query, description = "A comma list of states"),
        ("project_id" = Option<String>, Query), ("task_id" = Option<String>, Query),
        ("before" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = SandboxList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    mut params: Params,
) -> ApiResult {
    let limit = params.limit(100, 500);
    let filter = SandboxFilter {
        states: states(&mut params),
        project_id: params.parsed("project_id", ProjectId::parse),
        visible_projects: identity.visible_projects(),
        provider: None,
        held_by: None,
        task_id: params.parsed("task_id", TaskId::parse),
        before: params.parsed("before", SandboxId::parse),
        limit,
    };
    params.finish()?;
    let sandboxes = state.store().list_sandboxes(filter).await?;
    let full = sandboxes.len() >= limit as usize;
    let next_cursor = sandboxes.last().filter(|_| full).map(|sandbox| sandbox.id.to_string());
    ok(&SandboxList { sandboxes: sandboxes.into_iter().map(Into::into).collect(), next_cursor })
}

fn states(params: &mut Params) -> Vec<SandboxState> {
    let mut states = Vec::new();
    for word in params.list("state") {
        match SandboxState::parse(&word) {
            Some(state) => states.push(state),
            None => params.fault("state", "names a state that does not exist"),
        }
    }
    states
}
