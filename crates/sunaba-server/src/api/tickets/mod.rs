//! Pieces of wanted work.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod show;

use sunaba_types::{Ticket, TicketId};

use crate::auth::Identity;
use crate::{ApiError, AppState};

/// The ticket, if the caller may know of it.
pub(crate) async fn visible(
    state: &AppState,
    identity: &Identity,
    id: &TicketId,
) -> Result<Ticket, ApiError> {
    let found = state.store().find_ticket(id).await?;
    found
        .filter(|ticket| identity.sees_project(Some(&ticket.project_id)))
        .ok_or_else(|| ApiError::not_found("ticket", id))
}
