//! `GET /api/v1/sandboxes/{id}/outline`: turns at a glance.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::{SandboxId, Timestamp};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnView {
    turn: i64,
    first_seq: i64,
    last_seq: i64,
    started_at: Timestamp,
    ended_at: Timestamp,
    tools: i64,
    errors: i64,
    edits: i64,
    messages: i64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outline {
    sandbox_id: String,
    turns: Vec<TurnView>,
    /// Give it as `after` to go on.
    next_after: Option<i64>,
}

/// Turns at a glance, first turn first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/outline", tag = "events", operation_id = "get_outline",
    params(("id" = String, Path), ("after" = Option<i64>, Query, description = "Only later turns"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000)),
    responses((status = 200, body = Outline)))]
pub(crate) async fn outline(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    mut params: Params,
) -> ApiResult {
    let after = params.number("after", i64::MIN..=i64::MAX);
    let limit = params.limit(500, 1000);
    params.finish()?;
    visible_sandbox(&state, &identity, &id).await?;
    let turns = state.store().outline(&id, after, limit).await?;
    let full = turns.len() >= limit as usize;
    let next_after = turns.last().filter(|_| full).map(|turn| turn.turn);
    let turns = turns
        .into_iter()
        .map(|t| TurnView {
            turn: t.turn,
            first_seq: t.first_seq,
            last_seq: t.last_seq,
            started_at: t.started_at,
            ended_at: t.ended_at,
            tools: t.tools,
            errors: t.errors,
            edits: t.edits,
            messages: t.messages,
        })
        .collect();
    ok(&Outline { sandbox_id: id.into(), turns, next_after })
}
