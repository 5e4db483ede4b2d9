//! `POST /api/v1/sandboxes/{id}/messages`: says something to the agent.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use sunaba_types::limits::MESSAGE_MAX_BYTES;
use sunaba_types::{MessageType, NewMessage, SandboxId};
use utoipa::ToSchema;

use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Editor, visible_sandbox};
use crate::extract::{Fields, IdPath, JsonBody, Text};
use crate::{ApiError, AppState, telemetry};

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct MessageBody {
    /// At most 64 KiB.
    #[schema(min_length = 1)]
    content: String,
    /// `user_message` (default), `interrupt`, `guardian_nudge`, `guidance`, `system`.
    message_type: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageQueued {
    status: &'static str,
    message_id: String,
    sandbox_id: String,
    /// How many wait now, this one included.
    queue_size: i64,
}

/// Queues a message for the agent; a waiting worker gets it at once.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/messages", tag = "messages", operation_id = "post_message",
    params(("id" = String, Path)), request_body = MessageBody, responses((status = 200, body = MessageQueued)))]
pub(crate) async fn post_message(
    State(state): State<AppState>,
    Editor(identity): Editor,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let (content, message_type) = read(&body)?;
    visible_sandbox(&state, &identity, &id).await?;
    let message =
        NewMessage { sandbox_id: id.clone(), content, message_type, sender: identity.name.to_string() };
    let queued = state.store().queue_message(message).await?;
    state.hub.message_queued(&id);
    metrics::counter!(telemetry::MESSAGES).increment(1);
    ok(&MessageQueued {
        status: "queued",
        message_id: queued.message.id.into(),
        sandbox_id: id.into(),
        queue_size: queued.queue_size,
    })
}

fn read(body: &[u8]) -> Result<(String, MessageType), ApiError> {
    let mut fields = Fields::of_body(body)?;
    let content = fields.required_text("content", Text { min: 1, max: MESSAGE_MAX_BYTES });
    if content.as_ref().is_some_and(|text| text.len() > MESSAGE_MAX_BYTES) {
        fields.fault("content", format!("must have at most {MESSAGE_MAX_BYTES} bytes"));
    }
    let message_type = fields.word("message_type", MessageType::ALL, MessageType::as_str);
    fields.finish()?;
    Ok((content.ok_or_else(ApiError::internal)?, message_type.unwrap_or(MessageType::UserMessage)))
}
