//! `PUT /api/v1/sandboxes/{id}/transcripts/{session_id}`: the worker sends its agent's conversation.

use axum::body::Body;
use axum::extract::State;
use sunaba_store::NewTranscript;
use sunaba_types::BlobHash;

use crate::api::blobs::{BlobStored, forget, keep};
use crate::api::{ApiResult, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::{Params, SessionPath};
use crate::{ApiError, AppState};

/// Keeps a conversation; the latest one counts. Open to the sandbox itself.
#[utoipa::path(put, path = "/api/v1/sandboxes/{id}/transcripts/{session_id}", tag = "transcripts",
    operation_id = "put_transcript",
    params(("id" = String, Path), ("session_id" = String, Path),
        ("turns" = Option<i64>, Query, minimum = 0, description = "Turns that were made in this sandbox; one with \
            fewer than the one that is kept came late and is left out")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, body = BlobStored)))]
pub(crate) async fn put(
    State(state): State<AppState>,
    identity: Identity,
    SessionPath { sandbox: id, session }: SessionPath,
    mut params: Params,
    body: Body,
) -> ApiResult {
    let turns = params.number("turns", 0..=i64::MAX).unwrap_or(0);
    params.finish()?;
    super::super::may_append(&state, &identity, &id).await?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let by = identity.event_writer(false);
    // Before its bytes are taken, and again when it is recorded.
    state.store().check_standing(&id, by).await?;
    let stored = keep(&state, body, Some(sandbox), by).await?;
    let transcript = NewTranscript {
        sandbox_id: id.clone(),
        session_id: session,
        hash: BlobHash::try_from(stored.hash.clone()).map_err(|_| ApiError::internal())?,
        size_bytes: i64::try_from(stored.size_bytes).unwrap_or(i64::MAX),
        turns,
    };
    if let Some(past) = state.store().put_transcript(transcript, by).await? {
        forget(&state, &id, &past).await;
    }
    ok(&stored)
}
