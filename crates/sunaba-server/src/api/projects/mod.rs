//! Git repositories and their settings.

pub(crate) mod create;
pub(crate) mod list;
mod remote;
pub(crate) mod secrets;
mod settings;
pub(crate) mod show;
mod toolchains;
pub(crate) mod update;
pub(crate) mod usage;

use sunaba_types::{Project, ProjectId};

use crate::auth::Identity;
use crate::{ApiError, AppState};

/// The project, if the caller may know of it.
pub(crate) async fn visible(
    state: &AppState,
    identity: &Identity,
    id: &ProjectId,
) -> Result<Project, ApiError> {
    let absent = || ApiError::not_found("project", id);
    if !identity.sees_project(Some(id)) {
        return Err(absent());
    }
    state.store().find_project(id).await?.ok_or_else(absent)
}
