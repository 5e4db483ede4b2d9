//! `GET /metrics`: numbers, in Prometheus' text form.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use crate::auth::Reader;
use crate::{ApiError, AppState};

/// Numbers about the server. Needs a token that may read all projects, for they count everyone's work.
#[utoipa::path(get, path = "/metrics", tag = "ops",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(
    State(state): State<AppState>,
    Reader(identity): Reader,
) -> Result<Response, ApiError> {
    if identity.visible_projects().is_some() {
        return Err(ApiError::forbidden("all_projects_only", "this token is limited to some projects"));
    }
    let Some(handle) = &state.parts.metrics else {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "metrics_off", "this server keeps no numbers"));
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render())
        .into_response())
}
