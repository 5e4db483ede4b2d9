//! `GET /api/v1/sandboxes/health`.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::Timestamp;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::{ApiResult, ok};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServiceHealth {
    status: &'static str,
    service: &'static str,
    timestamp: Timestamp,
}

/// Whether this interface answers.
#[utoipa::path(get, path = "/api/v1/sandboxes/health", tag = "sandboxes", operation_id = "sandboxes_health",
    responses((status = 200, body = ServiceHealth)))]
pub(crate) async fn health(State(state): State<AppState>) -> ApiResult {
    ok(&ServiceHealth { status: "ok", service: "sandbox-api", timestamp: state.parts.clock.now() })
}
