//! `GET /api/v1/sandboxes/{id}/messages/history`: every message with its fate.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::PAGE_BYTES;
use sunaba_types::SandboxId;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::MessageFateView;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageHistory {
    sandbox_id: String,
    /// Oldest first.
    messages: Vec<MessageFateView>,
    /// Give it as `after_seq` to go on.
    next_after_seq: Option<i64>,
}

/// Messages and what became of them, oldest first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/messages/history", tag = "messages",
    operation_id = "message_history",
    params(("id" = String, Path), ("after_seq" = Option<i64>, Query, minimum = 0),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000)),
    responses((status = 200, body = MessageHistory)))]
pub(crate) async fn history(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> ApiResult {
    let after = params.number("after_seq", 0..=i64::MAX).unwrap_or(0);
    let limit = params.limit(500, 1000);
    params.finish()?;
    visible_sandbox(&state, &identity, &id).await?;
    let messages = state.store().message_history(&id, after, limit).await?;
    // A page may also have ended early, by its bytes.
    let full = messages.len() >= limit as usize
        || messages.iter().map(|message| message.content.len()).sum::<usize>() >= PAGE_BYTES;
    let next_after_seq = messages.last().filter(|_| full).map(|message| message.seq);
    let messages = messages.into_iter().map(Into::into).collect();
    ok(&MessageHistory { sandbox_id: id.into(), messages, next_after_seq })
}
