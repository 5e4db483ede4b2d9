//! Units that an agent does.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod show;

use sunaba_types::{Task, TaskId};

use crate::auth::Identity;
use crate::{ApiError, AppState};

/// The task, if the caller may know of it.
pub(crate) async fn visible(state: &AppState, identity: &Identity, id: &TaskId) -> Result<Task, ApiError> {
    let found = state.store().find_task(id).await?;
    found
        .filter(|task| identity.sees_project(Some(&task.project_id)))
        .ok_or_else(|| ApiError::not_found("task", id))
}
