//! `GET /api/v1/sandboxes/{id}/files`: a sandbox's files as they were after an event.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use sunaba_types::SandboxId;
use utoipa::ToSchema;

use super::diff::{absent, unreadable};
use super::steps::{At, Moment, path_param, resolve};
use crate::api::ok;
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState, Content, Shown};

/// What is at a path at one moment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Files)]
struct FilesView {
    sandbox_id: String,
    at: Moment,
    /// The path from the top of the repository; empty for the top itself.
    path: String,
    #[serde(flatten)]
    shown: Shown,
}

/// A folder's entries, or a file's content, after an event.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/files", tag = "sandboxes", operation_id = "get_files",
    params(("id" = String, Path),
        ("at" = Option<String>, Query, description = "`latest` (default), `base`, the place of an event or its id"),
        ("path" = Option<String>, Query, description = "from the top of the repository, which is the default"),
        ("format" = Option<String>, Query, description = "`json` (default), or `raw` for a file's bytes")),
    responses((status = 200, body = FilesView)))]
pub(crate) async fn files(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> Result<Response, ApiError> {
    let at = At::param(&mut params, "at").unwrap_or(At::Latest);
    let path = path_param(&mut params).unwrap_or_default();
    let format = params.text("format").unwrap_or_else(|| "json".to_owned());
    if !matches!(format.as_str(), "json" | "raw") {
        params.fault("format", "must be json or raw");
    }
    params.finish()?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let source = state.parts.files.as_ref().ok_or_else(|| absent("this server holds no repositories"))?;
    let at = resolve(&state, &sandbox, &at).await?;
    let tree = at.tree.as_deref().unwrap_or_default();
    let shown = source.show(&sandbox, tree, &path).await.map_err(unreadable)?;
    if format == "json" {
        return ok(&FilesView { sandbox_id: id.into(), at, path, shown });
    }
    match shown {
        Shown::File { content, .. } | Shown::Symlink { content } => Ok(raw(&content)),
        Shown::Directory { .. } | Shown::Submodule { .. } => Err(ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "not_a_file",
            format!("{path} is not a file"),
        )),
    }
}

/// An agent wrote this: no browser is to take it for anything but bytes.
fn raw(content: &Content) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, content.bytes()).into_response()
}
