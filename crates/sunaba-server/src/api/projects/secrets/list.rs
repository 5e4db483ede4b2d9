//! `GET /api/v1/projects/{id}/secrets`: names and times.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::ProjectId;
use utoipa::ToSchema;

use super::SecretView;
use crate::AppState;
use crate::api::{ApiResult, ok, projects};
use crate::auth::Reader;
use crate::extract::IdPath;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretList {
    secrets: Vec<SecretView>,
}

/// The names of a project's secrets, in order. Values are never shown.
#[utoipa::path(get, path = "/api/v1/projects/{id}/secrets", tag = "projects", operation_id = "list_secrets",
    params(("id" = String, Path)), responses((status = 200, body = SecretList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<ProjectId>,
) -> ApiResult {
    projects::visible(&state, &identity, &id).await?;
    let secrets = state.store().list_secrets(&id).await?;
    ok(&SecretList { secrets: secrets.into_iter().map(Into::into).collect() })
}
