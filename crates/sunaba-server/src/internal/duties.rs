//! What a project's home does for the sandboxes of other nodes.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use sunaba_nodes::wire::{Ground, Published};
use sunaba_types::SandboxId;

use crate::extract::IdPath;
use crate::{ApiError, AppState, DutyError, HomeDuties};

/// `POST /internal/v1/sandboxes/{id}/ground`.
pub(super) async fn lay_ground(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
) -> Result<Json<Ground>, ApiError> {
    Ok(Json(home(&state)?.lay_ground(&id).await.map_err(refused)?))
}

/// `POST /internal/v1/sandboxes/{id}/publish`.
pub(super) async fn publish(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
) -> Result<Json<Published>, ApiError> {
    Ok(Json(home(&state)?.publish(&id).await.map_err(refused)?))
}

fn home(state: &AppState) -> Result<&dyn HomeDuties, ApiError> {
    let none = || ApiError::new(StatusCode::NOT_FOUND, "no_home", "this node has no repositories");
    state.parts.home.as_deref().ok_or_else(none)
}

/// The words go on record at the node that asked.
fn refused(error: DutyError) -> ApiError {
    match error {
        DutyError::Passing(words) => ApiError::unavailable("not_now", words),
        DutyError::Refused(words) => ApiError::new(StatusCode::CONFLICT, "home_refused", words),
    }
}
