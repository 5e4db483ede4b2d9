//! `POST /api/v1/tickets`.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::NewTicket;
use sunaba_types::{Priority, ProjectId, TicketType};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::TicketView;
use crate::api::{ApiResult, PROMPT_BYTES, SMALL_BODY, TITLE_BYTES, created, projects};
use crate::auth::Editor;
use crate::extract::{Fields, JsonBody, Text};

/// A ticket to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct TicketBody {
    #[schema(min_length = 1, max_length = 100)]
    project_id: String,
    #[schema(min_length = 1, max_length = 300)]
    title: String,
    #[schema(max_length = 102_400)]
    description: Option<String>,
    /// `feature` (default), `bug`, `hotfix`, `refactor`, `docs`, `test`, `chore`.
    #[serde(rename = "type")]
    ticket_type: Option<String>,
    /// `CRITICAL`, `HIGH`, `MEDIUM` (default), `LOW`.
    priority: Option<String>,
}

/// Makes a ticket.
#[utoipa::path(post, path = "/api/v1/tickets", tag = "tickets", operation_id = "create_ticket",
    request_body = TicketBody, responses((status = 201, body = TicketView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Editor(identity): Editor,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let mut fields = Fields::of_body(&body)?;
    fields.require("project_id");
    let project_id = fields.parsed("project_id", ProjectId::parse);
    fields.require("title");
    let title = fields.bounded_text("title", Text { min: 1, max: 300 }, TITLE_BYTES);
    let description = fields.bounded_text("description", Text { min: 0, max: PROMPT_BYTES }, PROMPT_BYTES);
    let ticket_type = fields.word("type", TicketType::ALL, TicketType::as_str);
    let priority = fields.word("priority", Priority::ALL, Priority::as_str);
    fields.finish()?;
    let (Some(project_id), Some(title)) = (project_id, title) else {
        return Err(crate::ApiError::internal());
    };
    projects::visible(&state, &identity, &project_id).await?;
    let ticket = NewTicket {
        project_id,
        title,
        description: description.unwrap_or_default(),
        ticket_type: ticket_type.unwrap_or(TicketType::Feature),
        priority: priority.unwrap_or(Priority::Medium),
        owner: identity.name.to_string(),
    };
    created(&TicketView::from(state.store().create_ticket(ticket).await?))
}
