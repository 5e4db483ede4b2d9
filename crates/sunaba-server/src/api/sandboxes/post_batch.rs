//! `POST /api/v1/sandboxes/{id}/events/batch`: many events; each is answered for itself.
//!
//! A body that is wrong as a whole stores nothing. One wrong event is rejected
//! in its place and its neighbours are stored.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sunaba_store::{AppendOutcome, Rejection};
use sunaba_types::limits::{BATCH_MAX_BYTES, BATCH_MAX_EVENTS};
use sunaba_types::{NewEvent, SandboxId};
use utoipa::ToSchema;

use super::event_body::{EventBody, read_event};
use crate::api::{ApiResult, ok};
use crate::auth::Identity;
use crate::extract::{Fields, IdPath, JsonBody};
use crate::{ApiError, AppState, telemetry};

#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read event by event")]
pub(crate) struct BatchBody {
    #[schema(min_items = 1, max_items = 500)]
    events: Vec<EventBody>,
}

/// What became of one event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum EventResult {
    Received { status: &'static str, event_id: String, seq: i64 },
    Rejected { status: &'static str, code: String, detail: String },
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchResults {
    /// One for each event, in order.
    results: Vec<EventResult>,
}

/// Takes up to 500 events; answers once those that are received are durable.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/events/batch", tag = "events", operation_id = "post_events",
    params(("id" = String, Path)), request_body = BatchBody, responses((status = 200, body = BatchResults)))]
pub(crate) async fn post_batch(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<BATCH_MAX_BYTES>,
) -> ApiResult {
    let raw_events = read_list(&body)?;
    state.rates.events(&identity, raw_events.len())?;
    super::may_append(&state, &identity, &id).await?;
    let read: Vec<Result<NewEvent, ApiError>> =
        raw_events.iter().enumerate().map(|(index, raw)| read_one(raw, index, &identity)).collect();
    let good: Vec<NewEvent> = read.iter().filter_map(|event| event.as_ref().ok().cloned()).collect();
    let outcomes =
        if good.is_empty() { Vec::new() } else { super::append(&state, &identity, &id, good).await? };
    if let Some(error) = refused_as_a_whole(&outcomes, &id) {
        return Err(error);
    }
    ok(&BatchResults { results: merge(read, outcomes, &id)? })
}

fn read_list(body: &[u8]) -> Result<Vec<&RawValue>, ApiError> {
    let mut fields = Fields::of_body(body)?;
    fields.require("events");
    let events: Option<Vec<&RawValue>> =
        fields.raw("events").and_then(|raw| serde_json::from_str(raw.get()).ok());
    match &events {
        None if fields.raw("events").is_some() => fields.fault("events", "must be a list"),
        Some(events) if events.is_empty() || events.len() > BATCH_MAX_EVENTS => {
            fields
                .fault("events", format!("must hold 1 to {BATCH_MAX_EVENTS} events, holds {}", events.len()));
        }
        _ => {}
    }
    fields.finish()?;
    events.ok_or_else(ApiError::internal)
}

fn read_one(raw: &RawValue, index: usize, identity: &Identity) -> Result<NewEvent, ApiError> {
    let fields = Fields::of_value(raw)
        .ok_or_else(|| ApiError::field(format!("events[{index}]"), "must be a JSON object"))?;
    read_event(fields, identity)
}

/// What concerns the sandbox and not one event is an error of the whole request.
fn refused_as_a_whole(outcomes: &[AppendOutcome], id: &SandboxId) -> Option<ApiError> {
    let first = outcomes.first()?.as_ref().err()?;
    let concerns_sandbox =
        matches!(first, Rejection::UnknownSandbox | Rejection::AttemptSuperseded | Rejection::SandboxEnded);
    let all_alike = outcomes.iter().all(|outcome| outcome.as_ref().err() == Some(first));
    (concerns_sandbox && all_alike).then(|| super::refusal(first, id))
}

/// Puts what was refused here and what the store answered back into the order of the request.
fn merge(
    read: Vec<Result<NewEvent, ApiError>>,
    outcomes: Vec<AppendOutcome>,
    id: &SandboxId,
) -> Result<Vec<EventResult>, ApiError> {
    let mut outcomes = outcomes.into_iter();
    let mut results = Vec::with_capacity(read.len());
    for event in read {
        let outcome = match event {
            Err(error) => Err(error),
            Ok(_) => {
                let outcome = outcomes.next().ok_or_else(ApiError::internal)?;
                outcome.map_err(|rejection| super::refusal(&rejection, id))
            }
        };
        results.push(match outcome {
            Ok(stored) => {
                EventResult::Received { status: "received", event_id: stored.event_id, seq: stored.seq }
            }
            Err(error) => EventResult::Rejected {
                status: "rejected",
                code: error.code().to_owned(),
                detail: error.detail(),
            },
        });
    }
    count(&results);
    Ok(results)
}

fn count(results: &[EventResult]) {
    let received = results.iter().filter(|result| matches!(result, EventResult::Received { .. })).count();
    metrics::counter!(telemetry::EVENTS).increment(received as u64);
    metrics::counter!(telemetry::EVENTS_REJECTED).increment((results.len() - received) as u64);
}
