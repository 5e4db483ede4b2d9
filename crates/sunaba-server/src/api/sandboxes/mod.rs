//! Sandboxes: their rows, their log, their messages.

pub(crate) mod cancel;
pub(crate) mod create;
pub(crate) mod diff;
mod env;
pub(crate) mod event_body;
pub(crate) mod files;
mod fitness;
pub(crate) mod fork;
mod handing_over;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod list_events;
pub(crate) mod logs;
pub(crate) mod outline;
pub(crate) mod post_batch;
pub(crate) mod post_blob;
pub(crate) mod post_event;
pub(crate) mod post_message;
mod prompt_task;
pub(crate) mod questions;
mod resume;
pub(crate) mod show;
pub(crate) mod steps;
pub(crate) mod stream;
pub(crate) mod take_messages;
pub(crate) mod task;
pub(crate) mod terms;
pub(crate) mod trajectory;
pub(crate) mod transcripts;
pub(crate) mod usage;
pub(crate) mod verify;

use http::StatusCode;
use sunaba_store::{Append, AppendOutcome, EVENT_TYPES_MAX, Rejection};
use sunaba_types::{NewEvent, SandboxId};

use crate::auth::{Identity, Role, visible_sandbox};
use crate::{ApiError, AppState};

/// Appends events on the caller's behalf, after asking whether it may write to this sandbox at all.
pub(crate) async fn append(
    state: &AppState,
    identity: &Identity,
    sandbox_id: &SandboxId,
    events: Vec<NewEvent>,
) -> Result<Vec<AppendOutcome>, ApiError> {
    let writer = identity.event_writer(state.config().auto_register_sandboxes);
    let sizes: Vec<u64> = events.iter().map(logged_bytes).collect();
    state.room.check_log(sandbox_id, sizes.iter().sum())?;
    let outcomes = state.store().append(Append { sandbox_id: sandbox_id.clone(), writer, events }).await?;
    let stored = sizes.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
    state.room.count_log(sandbox_id, stored.map(|(size, _)| size).sum());
    Ok(outcomes)
}

/// What an event takes in the log: its payload, and a row around it.
fn logged_bytes(event: &NewEvent) -> u64 {
    const ROW_BYTES: usize = 256;
    (event.payload.as_str().len() + ROW_BYTES) as u64
}

/// Whether the caller may write events to this sandbox; what it may not see answers 404.
pub(crate) async fn may_append(
    state: &AppState,
    identity: &Identity,
    sandbox_id: &SandboxId,
) -> Result<(), ApiError> {
    match &identity.role {
        // Whether it exists is found out by the append itself.
        Role::Open | Role::Admin => Ok(()),
        Role::Sandbox(grant) if grant.sandbox_id == *sandbox_id => Ok(()),
        Role::Sandbox(_) => Err(ApiError::not_found("sandbox", sandbox_id)),
        Role::Personal(grant) if !grant.write => {
            Err(ApiError::forbidden("scope_missing", "this token lacks the scope `write`"))
        }
        Role::Personal(grant) if grant.projects.is_empty() => Ok(()),
        Role::Personal(_) => visible_sandbox(state, identity, sandbox_id).await.map(|_| ()),
    }
}

/// Why an event was not stored, as an error.
pub(crate) fn refusal(rejection: &Rejection, sandbox_id: &SandboxId) -> ApiError {
    let conflict = |code, detail: &str| ApiError::new(StatusCode::CONFLICT, code, detail);
    match rejection {
        Rejection::UnknownSandbox => ApiError::not_found("sandbox", sandbox_id),
        Rejection::AttemptSuperseded => {
            conflict("attempt_superseded", "a later attempt has taken this one's place")
        }
        Rejection::SandboxEnded => conflict("sandbox_ended", "the sandbox ended more than ten minutes ago"),
        Rejection::EventIdConflict => {
            conflict("event_id_conflict", "this event_id was used before, for another event")
        }
        Rejection::TooManyTypes => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "too_many_event_types",
            format!("a sandbox has at most {EVENT_TYPES_MAX} types of events"),
        ),
        Rejection::Refused(why) => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "event_refused", why.clone())
        }
    }
}
