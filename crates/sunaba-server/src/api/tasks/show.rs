//! `GET /api/v1/tasks/{id}`.

use axum::extract::State;
use sunaba_types::TaskId;

use crate::AppState;
use crate::api::views::TaskView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::IdPath;

/// One task.
#[utoipa::path(get, path = "/api/v1/tasks/{id}", tag = "tasks", operation_id = "get_task",
    params(("id" = String, Path)), responses((status = 200, body = TaskView)))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<TaskId>,
) -> ApiResult {
    ok(&TaskView::from(super::visible(&state, &identity, &id).await?))
}
