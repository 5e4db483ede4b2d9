//! `GET /api/v1/sandboxes/{id}/task`: what the sandbox works on.

use axum::extract::State;
use sunaba_types::SandboxId;

use crate::api::views::TaskView;
use crate::api::{ApiResult, ok};
use crate::auth::{Identity, Role, visible_sandbox};
use crate::extract::IdPath;
use crate::{ApiError, AppState};

/// The sandbox's task; 404 if it has none. Open to the sandbox itself.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/task", tag = "sandboxes", operation_id = "get_sandbox_task",
    params(("id" = String, Path)), responses((status = 200, body = TaskView)))]
pub(crate) async fn task(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    readable(&identity)?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    state.store().check_standing(&id, identity.event_writer(false)).await?;
    let none = || ApiError::not_found("task", format!("of sandbox {id}"));
    let task_id = sandbox.task_id.ok_or_else(none)?;
    let task = state.store().find_task(&task_id).await?.ok_or_else(none)?;
    ok(&TaskView::from(task))
}

/// Whether the caller's scopes let it look, where a sandbox may look too.
pub(super) fn readable(identity: &Identity) -> Result<(), ApiError> {
    match &identity.role {
        Role::Personal(grant) if !grant.read => {
            Err(ApiError::forbidden("scope_missing", "this token lacks the scope `read`"))
        }
        Role::Open | Role::Admin | Role::Personal(_) | Role::Sandbox(_) => Ok(()),
    }
}
