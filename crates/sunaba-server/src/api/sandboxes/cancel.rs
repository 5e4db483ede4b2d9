//! `DELETE /api/v1/sandboxes/{id}`: a person ends it. The orchestrator sees the state and kills it.

use axum::extract::State;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_store::SandboxChange;
use sunaba_types::{Sandbox, SandboxId, SandboxState};

use crate::api::views::SandboxView;
use crate::api::{ApiResult, ok};
use crate::auth::{Editor, visible_sandbox};
use crate::extract::IdPath;
use crate::{ApiError, AppState};

/// Cancels a sandbox and its task. Cancelling twice is harmless; one that ended otherwise is a conflict.
#[utoipa::path(delete, path = "/api/v1/sandboxes/{id}", tag = "sandboxes", operation_id = "cancel_sandbox",
    params(("id" = String, Path)), responses((status = 200, body = SandboxView)))]
pub(crate) async fn cancel(
    State(state): State<AppState>,
    Editor(identity): Editor,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    if sandbox.state == SandboxState::Cancelled {
        return ok(&SandboxView::from(sandbox));
    }
    let change = SandboxChange {
        trigger: Some(SandboxTrigger::Cancel),
        task_trigger: task_trigger(&state, &sandbox).await?,
        reason: Some(format!("cancelled by {}", identity.name)),
        ..SandboxChange::default()
    };
    ok(&SandboxView::from(state.store().change_sandbox(&id, change).await?))
}

/// The task ends with its present attempt, and only with that.
async fn task_trigger(state: &AppState, sandbox: &Sandbox) -> Result<Option<TaskTrigger>, ApiError> {
    let Some(task_id) = &sandbox.task_id else { return Ok(None) };
    let task = state.store().find_task(task_id).await?;
    let present =
        task.is_some_and(|task| task.sandbox_id.as_ref() == Some(&sandbox.id) && !task.status.is_terminal());
    Ok(present.then_some(TaskTrigger::Cancel))
}
