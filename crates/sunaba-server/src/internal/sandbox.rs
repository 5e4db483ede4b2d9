//! What this node has of a sandbox, for a node that was asked for it. Who may see it was decided there.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use http::StatusCode;
use sunaba_types::shim::ResourceUse;
use sunaba_types::{Sandbox, SandboxId};

use crate::api::{base, text, unreadable};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState, Between, Patch, Shown};

/// `GET /internal/v1/sandboxes/{id}/diff`, which nodes of the release before ask for.
pub(super) async fn diff(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
) -> Result<String, ApiError> {
    let sandbox = find(&state, &id).await?;
    let between = Between { from: base(&sandbox)?, to: None, path: None };
    let patch = source(state.parts.files.as_ref())?.patch(&sandbox, &between).await;
    Ok(text(patch.map_err(unreadable)?))
}

/// `GET /internal/v1/sandboxes/{id}/patch?from=&to=&path=`.
pub(super) async fn patch(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Json<Patch>, ApiError> {
    let from = params.text("from").unwrap_or_default();
    let between = Between { from, to: params.text("to"), path: params.text("path") };
    params.finish()?;
    let sandbox = find(&state, &id).await?;
    let patch = source(state.parts.files.as_ref())?.patch(&sandbox, &between).await;
    Ok(Json(patch.map_err(unreadable)?))
}

/// `GET /internal/v1/sandboxes/{id}/show?tree=&path=`.
pub(super) async fn show(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Json<Shown>, ApiError> {
    let tree = params.text("tree").unwrap_or_default();
    let path = params.text("path").unwrap_or_default();
    params.finish()?;
    let sandbox = find(&state, &id).await?;
    let shown = source(state.parts.files.as_ref())?.show(&sandbox, &tree, &path).await;
    Ok(Json(shown.map_err(unreadable)?))
}

/// `GET /internal/v1/sandboxes/{id}/output?bytes=`.
pub(super) async fn output(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Bytes, ApiError> {
    let bytes = params.number("bytes", 1..=i64::MAX).and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
    params.finish()?;
    let sandbox = find(&state, &id).await?;
    source(state.parts.logs.as_ref())?.raw_output(&sandbox, bytes).await.map_err(unreadable)
}

/// `GET /internal/v1/sandboxes/{id}/usage`.
pub(super) async fn usage(
    State(state): State<AppState>,
    IdPath(id): IdPath<SandboxId>,
) -> Result<Json<ResourceUse>, ApiError> {
    let sandbox = find(&state, &id).await?;
    Ok(Json(source(state.parts.usage.as_ref())?.usage(&sandbox).await.map_err(unreadable)?))
}

async fn find(state: &AppState, id: &SandboxId) -> Result<Sandbox, ApiError> {
    state.store().find_sandbox(id).await?.ok_or_else(|| ApiError::not_found("sandbox", id))
}

fn source<T: ?Sized>(source: Option<&Arc<T>>) -> Result<&T, ApiError> {
    let none = || ApiError::new(StatusCode::NOT_FOUND, "nothing_to_show", "this node has nothing of it");
    source.map(|source| &**source).ok_or_else(none)
}
