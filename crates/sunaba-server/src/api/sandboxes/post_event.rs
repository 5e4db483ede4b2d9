//! `POST /api/v1/sandboxes/{id}/events`: one event. 200 only once it is durable.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::limits::EVENT_PAYLOAD_MAX_BYTES;
use sunaba_types::{SandboxId, Timestamp};
use utoipa::ToSchema;

use super::event_body::{EventBody, read_event};
use crate::api::{ApiResult, ok};
use crate::auth::Identity;
use crate::extract::{Fields, IdPath, JsonBody};
use crate::{ApiError, AppState, telemetry};

/// A payload at its limit and the fields around it.
const BODY: usize = EVENT_PAYLOAD_MAX_BYTES + 64 * 1024;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventReceived {
    status: &'static str,
    sandbox_id: String,
    event_type: String,
    event_id: String,
    seq: i64,
    timestamp: Timestamp,
}

/// Takes an event; answers once it is durable.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/events", tag = "events", operation_id = "post_event",
    params(("id" = String, Path)), request_body = EventBody, responses((status = 200, body = EventReceived)))]
pub(crate) async fn post_event(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<BODY>,
) -> ApiResult {
    state.rates.events(&identity, 1)?;
    let event = read_event(Fields::of_body(&body)?, &identity)?;
    super::may_append(&state, &identity, &id).await?;
    let event_type = event.event_type.clone();
    let outcomes = super::append(&state, &identity, &id, vec![event]).await?;
    let outcome = outcomes.into_iter().next().ok_or_else(ApiError::internal)?;
    let stored = outcome.map_err(|rejection| {
        metrics::counter!(telemetry::EVENTS_REJECTED).increment(1);
        super::refusal(&rejection, &id)
    })?;
    metrics::counter!(telemetry::EVENTS).increment(1);
    ok(&EventReceived {
        status: "received",
        sandbox_id: id.into(),
        event_type,
        event_id: stored.event_id,
        seq: stored.seq,
        timestamp: stored.created_at,
    })
}
