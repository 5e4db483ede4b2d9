//! `PATCH /api/v1/projects/{id}`: changes a project's name, branch or settings.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::{Error, ProjectPatch};
use sunaba_types::{Project, ProjectId};
use utoipa::ToSchema;

use super::create::{NAME, check_branch};
use super::settings::{self, SettingsBody};
use crate::api::views::ProjectView;
use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Editor, Identity};
use crate::extract::{Fields, IdPath, JsonBody};
use crate::{ApiError, AppState};

/// How often a change is made anew from what somebody else has set meanwhile.
const ROUNDS: usize = 5;

/// What is to be changed; what is absent stays.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct ProjectChange {
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
    /// The branch that work starts from.
    #[schema(min_length = 1, max_length = 200)]
    default_branch: Option<String>,
    /// Given keys replace what was set, `null` clears one.
    settings: Option<SettingsBody>,
}

/// Changes a project. Sandboxes that exist already keep what they were made with.
#[utoipa::path(patch, path = "/api/v1/projects/{id}", tag = "projects", operation_id = "update_project",
    params(("id" = String, Path)), request_body = ProjectChange, responses((status = 200, body = ProjectView)))]
pub(crate) async fn update(
    State(state): State<AppState>,
    Editor(identity): Editor,
    IdPath(id): IdPath<ProjectId>,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let mut round = 1;
    loop {
        let before = super::visible(&state, &identity, &id).await?;
        let patch = read(&state, &identity, &body, &before).await?;
        match state.store().update_project(&id, patch).await {
            Err(Error::Conflict { code: "project_changed", .. }) if round < ROUNDS => round += 1,
            changed => return ok(&ProjectView::of(&state, changed?).await?),
        }
    }
}

async fn read(
    state: &AppState,
    identity: &Identity,
    body: &[u8],
    before: &Project,
) -> Result<ProjectPatch, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let name = fields.text("name", NAME);
    let default_branch = fields.parsed("default_branch", check_branch);
    let given = settings::given(&mut fields);
    if given.is_empty() {
        fields.finish()?;
        return Ok(ProjectPatch { name, default_branch, ..ProjectPatch::default() });
    }
    let after = settings::merged(&mut fields, &before.settings, given);
    settings::check(&mut fields, state, &after);
    fields.finish()?;
    settings::may_set(identity, state, &before.settings, &after)?;
    settings::check_places(state, identity, &before.settings, &after).await?;
    let settings_before = Some(before.settings.clone());
    Ok(ProjectPatch { name, default_branch, settings: Some(after), settings_before })
}
