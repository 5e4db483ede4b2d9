//! `DELETE /api/v1/sandboxes/{id}`: a person ends it. The orchestrator sees the state and kills it.

use axum::extract::State;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_store::SandboxChange;
use sunaba_types::{Sandbox, SandboxId, SandboxState, TaskState};

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
    let change = ending(&state, &sandbox, format!("cancelled by {}", identity.name)).await?;
    ok(&SandboxView::from(state.store().change_sandbox(&id, change).await?))
}

/// The task ends with its present attempt, and only with that. One whose result is there already, while the sandbox
/// waits for a follow-up, stays completed; one that waits without its sandbox is cancelled itself.
async fn ending(state: &AppState, sandbox: &Sandbox, reason: String) -> Result<SandboxChange, ApiError> {
    let task = match &sandbox.task_id {
        Some(task_id) => state.store().find_task(task_id).await?,
        None => None,
    };
    let status = task.filter(|task| task.sandbox_id.as_ref() == Some(&sandbox.id)).map(|task| task.status);
    let ended = SandboxChange { reason: Some(reason), ..SandboxChange::default() };
    Ok(match (sandbox.state, status) {
        (SandboxState::Completing, Some(TaskState::Completed)) => {
            let trigger = Some(SandboxTrigger::ResultRecorded);
            SandboxChange { trigger, for_good: true, reason: None, ..ended }
        }
        (SandboxState::Completed, Some(TaskState::WaitingInput | TaskState::WaitingQuota)) => {
            SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..ended }
        }
        (_, status) => SandboxChange {
            trigger: Some(SandboxTrigger::Cancel),
            task_trigger: status.filter(|status| !status.is_terminal()).map(|_| TaskTrigger::Cancel),
            ..ended
        },
    })
}
