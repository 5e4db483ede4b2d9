//! `GET /api/v1/sandboxes/{id}/transcripts`.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::{SandboxId, Timestamp, TranscriptRecord};
use utoipa::ToSchema;

use crate::AppState;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::IdPath;

/// A conversation that is kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Transcript)]
pub(crate) struct TranscriptView {
    sandbox_id: String,
    /// Give it as `resume_session_id` to go on with it.
    session_id: String,
    /// The only runtime that can go on with it.
    runtime: String,
    /// SHA-256 of its bytes, in hexadecimal.
    hash: String,
    size_bytes: i64,
    /// Turns that were made in this sandbox.
    turns: i64,
    updated_at: Timestamp,
}

impl From<TranscriptRecord> for TranscriptView {
    fn from(record: TranscriptRecord) -> Self {
        Self {
            sandbox_id: record.sandbox_id.into(),
            session_id: record.session_id,
            runtime: record.runtime,
            hash: record.hash.into(),
            size_bytes: record.size_bytes,
            turns: record.turns,
            updated_at: record.updated_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TranscriptList {
    sandbox_id: String,
    /// Newest first.
    transcripts: Vec<TranscriptView>,
}

/// The conversations of a sandbox, newest first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/transcripts", tag = "transcripts",
    operation_id = "list_transcripts", params(("id" = String, Path)),
    responses((status = 200, body = TranscriptList)))]
pub(crate) async fn list(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    visible_sandbox(&state, &identity, &id).await?;
    let transcripts = state.store().list_transcripts(&id).await?;
    ok(&TranscriptList {
        sandbox_id: id.into(),
        transcripts: transcripts.into_iter().map(Into::into).collect(),
    })
}
