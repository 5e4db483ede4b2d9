//! `GET /idle`: whether the gateway still answers a model call of the sandbox that asks.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::{Caller, GatewayState};

/// Longest wait.
const WAIT_MAX_SECONDS: u8 = 30;

#[derive(Debug, serde::Deserialize)]
pub(crate) struct Params {
    /// Seconds to wait for the end of the last one.
    #[serde(default)]
    wait: u8,
}

/// How many calls are under way, once there is none or the wait is over.
pub(crate) async fn idle(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    Query(params): Query<Params>,
) -> Response {
    let wait = Duration::from_secs(params.wait.min(WAIT_MAX_SECONDS).into());
    // What is counted afterwards tells whether it came.
    let _ = tokio::time::timeout(wait, state.calls.until_none(&caller.sandbox_id)).await;
    axum::Json(json!({ "open_calls": state.calls.count(&caller.sandbox_id) })).into_response()
}
