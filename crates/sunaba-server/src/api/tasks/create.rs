//! `POST /api/v1/tasks`.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::NewTask;
use sunaba_types::{Priority, TicketId};
use utoipa::ToSchema;

use crate::api::execution::{self, ExecutionBody};
use crate::api::views::TaskView;
use crate::api::{ApiResult, PROMPT_BYTES, SMALL_BODY, TITLE_BYTES, created, tickets};
use crate::auth::Editor;
use crate::extract::{Fields, JsonBody, Text};
use crate::{ApiError, AppState};

/// A task to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct TaskBody {
    #[schema(min_length = 1, max_length = 100)]
    ticket_id: String,
    #[schema(min_length = 1, max_length = 300)]
    title: String,
    /// What the agent is told.
    #[schema(max_length = 102_400)]
    description: Option<String>,
    /// `implement` when absent.
    #[schema(min_length = 1, max_length = 100)]
    task_type: Option<String>,
    /// `CRITICAL`, `HIGH`, `MEDIUM` (default), `LOW`.
    priority: Option<String>,
    /// How its agent works unless a call says otherwise.
    execution_config: Option<ExecutionBody>,
}

/// Makes a task.
#[utoipa::path(post, path = "/api/v1/tasks", tag = "tasks", operation_id = "create_task",
    request_body = TaskBody, responses((status = 201, body = TaskView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Editor(identity): Editor,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let mut fields = Fields::of_body(&body)?;
    fields.require("ticket_id");
    let ticket_id = fields.parsed("ticket_id", TicketId::parse);
    fields.require("title");
    let title = fields.bounded_text("title", Text { min: 1, max: 300 }, TITLE_BYTES);
    let description = fields.bounded_text("description", Text { min: 0, max: PROMPT_BYTES }, PROMPT_BYTES);
    let task_type = fields.text("task_type", Text { min: 1, max: 100 });
    let priority = fields.word("priority", Priority::ALL, Priority::as_str);
    let execution_config = execution::read(&mut fields);
    fields.finish()?;
    let (Some(ticket_id), Some(title)) = (ticket_id, title) else { return Err(ApiError::internal()) };
    tickets::visible(&state, &identity, &ticket_id).await?;
    let task = NewTask {
        ticket_id,
        task_type: task_type.unwrap_or_else(|| "implement".to_owned()),
        description: description.unwrap_or_else(|| title.clone()),
        title,
        priority: priority.unwrap_or(Priority::Medium),
        execution_config,
    };
    created(&TaskView::from(state.store().create_task(task).await?))
}
