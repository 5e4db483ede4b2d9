//! `GET /api/v1/sandboxes/{id}/transcripts/{session_id}`: the bytes of a conversation.

use axum::extract::State;
use axum::response::Response;
use sunaba_types::{Sandbox, TranscriptRecord};

use crate::api::blobs::fetch::{shown, unreadable};
use crate::api::sandboxes::task::readable;
use crate::auth::{Identity, visible_sandbox};
use crate::extract::SessionPath;
use crate::{ApiError, AppState};

/// A conversation. The sandbox itself gets its own, and the one that it is to go on with.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/transcripts/{session_id}", tag = "transcripts",
    operation_id = "get_transcript", params(("id" = String, Path), ("session_id" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream")))]
pub(crate) async fn fetch(
    State(state): State<AppState>,
    identity: Identity,
    SessionPath { sandbox: id, session }: SessionPath,
) -> Result<Response, ApiError> {
    readable(&identity)?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    state.store().check_standing(&id, identity.event_writer(false)).await?;
    let absent = || ApiError::not_found("transcript", &session);
    let record = find(&state, &sandbox, &session).await?.ok_or_else(absent)?;
    let opened = state.parts.blobs.open(&record.hash).await;
    let opened = opened.map_err(|error| unreadable(&record.hash, &error))?;
    Ok(shown(opened.ok_or_else(absent)?))
}

async fn find(
    state: &AppState,
    sandbox: &Sandbox,
    session: &str,
) -> Result<Option<TranscriptRecord>, ApiError> {
    let resumed = sandbox.terms.resume.as_ref().filter(|resume| resume.session_id == session);
    for id in std::iter::once(&sandbox.id).chain(resumed.map(|resume| &resume.from)) {
        let kept = state.store().list_transcripts(id).await?;
        if let Some(record) = kept.into_iter().find(|record| record.session_id == session) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}
