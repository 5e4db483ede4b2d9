//! `GET /api/v1/tickets/{id}`.

use axum::extract::State;
use sunaba_types::TicketId;

use crate::AppState;
use crate::api::views::TicketView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::extract::IdPath;

/// One ticket.
#[utoipa::path(get, path = "/api/v1/tickets/{id}", tag = "tickets", operation_id = "get_ticket",
    params(("id" = String, Path)), responses((status = 200, body = TicketView)))]
pub(crate) async fn show(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<TicketId>,
) -> ApiResult {
    ok(&TicketView::from(super::visible(&state, &identity, &id).await?))
}
