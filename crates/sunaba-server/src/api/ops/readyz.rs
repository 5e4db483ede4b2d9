//! `GET /readyz`: every part is ready, or which is not.

use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse as _;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::{ApiResult, ok};
use crate::{ApiError, AppState, FieldError};

const PART_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    status: &'static str,
    /// The parts that were asked.
    parts: Vec<&'static str>,
}

/// Whether every part is ready. If not, `errors` names the parts that are not.
#[utoipa::path(get, path = "/readyz", tag = "ops", responses((status = 200, body = Ready)))]
pub(crate) async fn readyz(State(state): State<AppState>) -> ApiResult {
    let mut missing = Vec::new();
    let mut parts = vec!["store", "feed"];
    match tokio::time::timeout(PART_TIMEOUT, state.store().check()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let outdated = error.outdated().map(|outdated| outdated.to_string());
            missing.push(("store", outdated.unwrap_or_else(|| error.to_string())));
        }
        Err(_) => missing.push(("store", "does not answer".to_owned())),
    }
    if state.hub.head().is_none() {
        missing.push(("feed", "has not been read yet".to_owned()));
    }
    for part in &state.parts.ready_checks {
        parts.push(part.name());
        match tokio::time::timeout(PART_TIMEOUT, part.check()).await {
            Ok(Ok(())) => {}
            Ok(Err(detail)) => missing.push((part.name(), detail)),
            Err(_) => missing.push((part.name(), "does not answer".to_owned())),
        }
    }
    if state.shutdown().is_cancelled() {
        missing.push(("server", "is stopping".to_owned()));
    }
    if missing.is_empty() {
        return ok(&Ready { status: "ready", parts });
    }
    Ok(not_ready(missing).into_response())
}

fn not_ready(missing: Vec<(&'static str, String)>) -> ApiError {
    let errors =
        missing.into_iter().map(|(part, detail)| FieldError { field: part.to_owned(), detail }).collect();
    ApiError::unavailable("not_ready", "not every part is ready").with_errors(errors)
}
