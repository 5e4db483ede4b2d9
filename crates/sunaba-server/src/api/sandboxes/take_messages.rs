//! `GET /api/v1/sandboxes/{id}/messages`: what waits for the agent.
//!
//! The sandbox's own poll takes the messages; anyone else's looks at the list.
//! With `ack` or `wait` the poll is in explicit mode (handed over until
//! acknowledged), else in legacy mode (handed over with the answer's last byte, and
//! the next poll acknowledges).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use http::header;
use sunaba_store::{TakeMode, Writer};
use sunaba_types::limits::LONG_POLL_MAX_SECONDS;
use sunaba_types::{Message, MessageId, SandboxId};
use tokio::time::Instant;

use super::handing_over::HandingOver;
use super::task::readable;
use crate::api::views::MessageView;
use crate::api::{ApiResult, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState};

/// A message that was handed over and not acknowledged is offered again in time, without any signal.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Messages for the agent, interrupts first, then oldest first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/messages", tag = "messages", operation_id = "take_messages",
    params(("id" = String, Path),
        ("wait" = Option<u32>, Query, minimum = 0, maximum = 60, description = "Seconds to wait for one"),
        ("ack" = Option<String>, Query, description = "A comma list of ids of messages the worker has"),
        ("again" = Option<bool>, Query, description = "true: what is handed over and not acknowledged is offered at \
            once, not after 30 s; for a worker that lost an answer")),
    responses((status = 200, body = Vec<MessageView>)))]
pub(crate) async fn take_messages(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
    params: Params,
) -> ApiResult {
    readable(&identity)?;
    let (mode, wait) = read(params)?;
    visible_sandbox(&state, &identity, &id).await?;
    let by = identity.event_writer(false);
    let messages = if !identity.takes_messages_of(&id) {
        state.store().peek_messages(&id).await?
    } else if mode == TakeMode::Legacy {
        return legacy(&state, id, by).await;
    } else {
        take(&state, &id, by, mode, wait).await?
    };
    ok(&views(messages))
}

fn views(messages: Vec<Message>) -> Vec<MessageView> {
    messages.into_iter().map(Into::into).collect()
}

/// Shows what waits; the answer itself hands it over.
async fn legacy(state: &AppState, id: SandboxId, by: Writer) -> ApiResult {
    let messages = state.store().offer_messages(&id, by).await?;
    if messages.is_empty() {
        return ok(&views(messages));
    }
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
    let text = serde_json::to_vec(&views(messages)).map_err(|_| ApiError::internal())?;
    let store = Arc::clone(state.store());
    let record = Box::pin(async move { store.hand_over(&id, by, ids).await });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((headers, Body::new(HandingOver::new(text, record))).into_response())
}

fn read(mut params: Params) -> Result<(TakeMode, Duration), ApiError> {
    let explicit = params.has("ack") || params.has("wait");
    let longest = i64::try_from(LONG_POLL_MAX_SECONDS).unwrap_or(60);
    let wait = params.parsed("wait", |text| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("must be a number of seconds from 0 to {longest}")),
    });
    let mut acknowledged = Vec::new();
    for id in params.list("ack") {
        match MessageId::parse(id) {
            Ok(id) => acknowledged.push(id),
            Err(error) => params.fault("ack", error.to_string()),
        }
    }
    let again = params.parsed("again", |text| match text.as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    });
    params.finish()?;
    let again = again.unwrap_or_default();
    let mode = if explicit { TakeMode::Explicit { acknowledged, again } } else { TakeMode::Legacy };
    Ok((mode, wait.unwrap_or_default()))
}

async fn take(
    state: &AppState,
    id: &SandboxId,
    by: Writer,
    mode: TakeMode,
    wait: Duration,
) -> Result<Vec<Message>, ApiError> {
    let deadline = Instant::now() + wait;
    // Watch before looking: a message queued in between is then not slept through.
    let mut watch = state.hub.watch(id);
    let mut mode = mode;
    loop {
        watch.messages.borrow_and_update();
        let messages = state.store().take_messages(id, by, mode.clone()).await?;
        if !messages.is_empty() || Instant::now() >= deadline || state.shutdown().is_cancelled() {
            return Ok(messages);
        }
        // What was acknowledged is so from the first look on.
        if let TakeMode::Explicit { acknowledged, .. } = &mut mode {
            acknowledged.clear();
        }
        let pause = deadline.min(Instant::now() + LOOK_AGAIN);
        tokio::select! {
            changed = watch.messages.changed() => if changed.is_err() { tokio::time::sleep_until(pause).await; },
            () = tokio::time::sleep_until(pause) => {}
            () = state.shutdown().cancelled() => {}
        }
    }
}
