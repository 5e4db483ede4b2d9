//! `GET /api/v1/sandboxes/{id}/diff`: what the sandbox changed, in all or between two events.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use sunaba_types::{Sandbox, SandboxId};
use utoipa::ToSchema;

use super::steps::{At, Moment, base, path_param, resolve};
use crate::api::ok;
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState, Between, Patch, SourceError};

/// What differs between two moments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diff)]
struct DiffView {
    sandbox_id: String,
    from: Moment,
    to: Moment,
    #[serde(flatten)]
    patch: Patch,
}

/// The unified diff between two moments: from where the sandbox started unless `from` says otherwise, to what it came
/// to, or its latest step while it works, unless `to` says otherwise.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/diff", tag = "sandboxes", operation_id = "get_diff",
    params(("id" = String, Path),
        ("from" = Option<String>, Query, description = "`base` (default), `latest`, the place of an event or its id"),
        ("to" = Option<String>, Query, description = "the same; what the sandbox came to when absent"),
        ("path" = Option<String>, Query, description = "only this file, or what is below this folder"),
        ("format" = Option<String>, Query, description = "`text` (default): the diff; `json`: with a summary of each file")),
    responses((status = 200, content((String = "text/plain"), (DiffView = "application/json")))))]
pub(crate) async fn diff(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let from = At::param(&mut params, "from").unwrap_or(At::Base);
    let to = At::param(&mut params, "to");
    let path = path_param(&mut params).filter(|path| !path.is_empty());
    let format = params.text("format").unwrap_or_else(|| "text".to_owned());
    if !matches!(format.as_str(), "json" | "text") {
        params.fault("format", "must be json or text");
    }
    params.finish()?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let source = state.parts.files.as_ref().ok_or_else(|| absent("this server holds no repositories"))?;
    let from = resolve(&state, &sandbox, &from).await?;
    let to = match to {
        Some(to) => resolve(&state, &sandbox, &to).await?,
        None => outcome(&state, &sandbox).await?,
    };
    let earlier = from.tree.clone().unwrap_or_default();
    let between = Between { from: earlier, to: to.tree.clone(), path };
    let patch = source.patch(&sandbox, &between).await.map_err(unreadable)?;
    if format == "json" {
        return ok(&DiffView { sandbox_id: id.into(), from, to, patch });
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text(patch)).into_response())
}

/// The diff with a mark where it was cut off.
pub(crate) fn text(patch: Patch) -> String {
    let mut text = patch.diff;
    if patch.truncated {
        text.push_str(&format!("\n[cut: the diff is longer than {} bytes]\n", sunaba_git::DIFF_MAX_BYTES));
    }
    text
}

/// What a sandbox came to; while it works, its latest step; without one, what its branch has.
async fn outcome(state: &AppState, sandbox: &Sandbox) -> Result<Moment, ApiError> {
    let nowhere = |tree| Moment { tree, seq: None, event_id: None };
    if sandbox.head_commit.is_some() {
        return Ok(nowhere(sandbox.head_commit.clone()));
    }
    base(sandbox)?;
    let latest = resolve(state, sandbox, &At::Latest).await?;
    Ok(if latest.seq.is_some() { latest } else { nowhere(None) })
}

pub(super) fn absent(detail: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "nothing_to_show", detail)
}

/// Why a source gave nothing, as an error.
pub(crate) fn unreadable(error: SourceError) -> ApiError {
    match error {
        SourceError::Absent(why) => absent(&why),
        SourceError::NotPushed(why) => ApiError::new(StatusCode::NOT_FOUND, "step_not_pushed", why),
        SourceError::NoSuchPath(why) => ApiError::new(StatusCode::NOT_FOUND, "path_not_found", why),
        SourceError::TooLarge(why) => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "file_too_large", why),
        SourceError::Failed(cause) => {
            tracing::error!(error = %cause, "a source of the sandbox could not be read");
            ApiError::unavailable("source_unavailable", "this cannot be read now; try again")
        }
    }
}
