//! What a handler asks of its caller, as extractors.
//!
//! A route with none of these is open to sandbox tokens, so only the worker's
//! own routes take a bare [`Identity`].

use axum::extract::FromRequestParts;
use http::request::Parts;
use sunaba_types::{Sandbox, SandboxId};

use super::identity::{Identity, Role};
use crate::{ApiError, AppState};

fn recognised(parts: &Parts) -> Result<Identity, ApiError> {
    parts.extensions.get::<Identity>().cloned().ok_or_else(|| ApiError::unauthorized("a token is needed"))
}

impl FromRequestParts<AppState> for Identity {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        recognised(parts)
    }
}

fn refuse_sandbox() -> ApiError {
    ApiError::forbidden("not_for_sandboxes", "a sandbox's token opens only the worker's routes")
}

/// Somebody who may look at things: not a sandbox.
#[derive(Debug)]
pub(crate) struct Reader(pub(crate) Identity);

impl FromRequestParts<AppState> for Reader {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        Self::of(recognised(parts)?)
    }
}

impl Reader {
    /// This caller, if it may look at things.
    pub(crate) fn of(identity: Identity) -> Result<Self, ApiError> {
        match &identity.role {
            Role::Open | Role::Admin => Ok(Self(identity)),
            Role::Personal(grant) if grant.read => Ok(Self(identity)),
            Role::Personal(_) => {
                Err(ApiError::forbidden("scope_missing", "this token lacks the scope `read`"))
            }
            Role::Sandbox(_) => Err(refuse_sandbox()),
        }
    }
}

/// Somebody who may change things: not a sandbox.
#[derive(Debug)]
pub(crate) struct Editor(pub(crate) Identity);

impl FromRequestParts<AppState> for Editor {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        let identity = recognised(parts)?;
        may_write(&identity)?;
        if identity.sandbox().is_some() {
            return Err(refuse_sandbox());
        }
        Ok(Self(identity))
    }
}

/// Whether the caller's scopes let it change anything at all.
pub(crate) fn may_write(identity: &Identity) -> Result<(), ApiError> {
    match &identity.role {
        Role::Personal(grant) if !grant.write => {
            Err(ApiError::forbidden("scope_missing", "this token lacks the scope `write`"))
        }
        Role::Open | Role::Admin | Role::Personal(_) | Role::Sandbox(_) => Ok(()),
    }
}

/// An administrator.
#[derive(Debug)]
pub(crate) struct Admin;

impl FromRequestParts<AppState> for Admin {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        if recognised(parts)?.is_admin() {
            return Ok(Self);
        }
        Err(ApiError::forbidden("admin_only", "only an admin token opens this"))
    }
}

/// Whether the caller may know of this sandbox.
pub(crate) fn may_see_sandbox(identity: &Identity, sandbox: &Sandbox) -> bool {
    match identity.sandbox() {
        Some(grant) => grant.sandbox_id == sandbox.id,
        None => identity.sees_project(sandbox.project_id.as_ref()),
    }
}

/// The sandbox, if the caller may know of it; 404 if not, in the same words as if there were none.
pub(crate) async fn visible_sandbox(
    state: &AppState,
    identity: &Identity,
    id: &SandboxId,
) -> Result<Sandbox, ApiError> {
    if identity.sandbox().is_some_and(|grant| grant.sandbox_id != *id) {
        return Err(ApiError::not_found("sandbox", id));
    }
    let found = state.store().find_sandbox(id).await?;
    found
        .filter(|sandbox| may_see_sandbox(identity, sandbox))
        .ok_or_else(|| ApiError::not_found("sandbox", id))
}
