//! `GET /api/v1/tickets`.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::ProjectId;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::TicketView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::Params;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TicketList {
    tickets: Vec<TicketView>,
}

/// Tickets, newest first.
#[utoipa::path(get, path = "/api/v1/tickets", tag = "tickets", operation_id = "list_tickets",
    params(("project_id" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = TicketList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    mut params: Params,
) -> ApiResult {
    let limit = params.limit(100, 500);
    let project_id = params.parsed("project_id", ProjectId::parse);
    params.finish()?;
    let visible = identity.visible_projects();
    let tickets = state.store().list_tickets(project_id.as_ref(), visible.as_deref(), limit).await?;
    ok(&TicketList { tickets: tickets.into_iter().map(Into::into).collect() })
}
