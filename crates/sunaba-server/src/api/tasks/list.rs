//! `GET /api/v1/tasks`.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::TaskFilter;
use sunaba_types::{ProjectId, TaskState, TicketId};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::TaskView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::Params;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TaskList {
    tasks: Vec<TaskView>,
}

/// Tasks, newest first.
#[utoipa::path(get, path = "/api/v1/tasks", tag = "tasks", operation_id = "list_tasks",
    params(("status" = Option<String>, Query), ("ticket_id" = Option<String>, Query),
        ("project_id" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = TaskList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    mut params: Params,
) -> ApiResult {
    let filter = TaskFilter {
        status: params.parsed("status", |text| TaskState::parse(&text).ok_or("is not a task's status")),
        ticket_id: params.parsed("ticket_id", TicketId::parse),
        project_id: params.parsed("project_id", ProjectId::parse),
        visible_projects: identity.visible_projects(),
        limit: params.limit(100, 500),
    };
    params.finish()?;
    let tasks = state.store().list_tasks(filter).await?;
    ok(&TaskList { tasks: tasks.into_iter().map(Into::into).collect() })
}
