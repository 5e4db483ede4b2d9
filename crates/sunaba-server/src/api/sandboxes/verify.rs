//! `GET /api/v1/sandboxes/{id}/verify`: walks the hash chain of the log.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::LogHead;
use sunaba_types::chain::{GENESIS, Hash, hex};
use sunaba_types::{SandboxId, StoredEvent};
use utoipa::ToSchema;

use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::IdPath;
use crate::{ApiError, AppState};

const PAGE: u32 = 128;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verification {
    /// Whether every event is as it was written and none is missing.
    ok: bool,
    /// How many events were walked.
    events: i64,
    /// The last hash that was reached, in hexadecimal.
    head: String,
    /// The first event that is not as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad_seq: Option<i64>,
}

/// Recomputes the hash chain from the first event to the last.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/verify", tag = "events", operation_id = "verify_log",
    params(("id" = String, Path)), responses((status = 200, body = Verification)))]
pub(crate) async fn verify(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
) -> ApiResult {
    visible_sandbox(&state, &identity, &id).await?;
    let head = state.store().log_head(&id).await?;
    ok(&walk(&state, &id, &head).await?)
}

async fn walk(state: &AppState, id: &SandboxId, head: &LogHead) -> Result<Verification, ApiError> {
    let (mut hash, mut seq): (Hash, i64) = (GENESIS, 0);
    // Events that arrive meanwhile belong to the next verification.
    while seq < head.last_seq {
        let events = state.store().events_after(id, seq, PAGE).await?;
        if events.is_empty() {
            return Ok(broken_at(seq + 1, seq, &hash));
        }
        for event in events.iter().take_while(|event| event.seq <= head.last_seq) {
            if !follows(event, seq, &hash) {
                return Ok(broken_at(seq + 1, seq, &hash));
            }
            (hash, seq) = (event.hash, event.seq);
        }
        if events.first().is_some_and(|event| event.seq > head.last_seq) {
            return Ok(broken_at(seq + 1, seq, &hash));
        }
    }
    if hash != head.last_hash {
        return Ok(broken_at(seq, seq, &hash));
    }
    Ok(Verification { ok: true, events: seq, head: hex(&hash), first_bad_seq: None })
}

fn follows(event: &StoredEvent, seq: i64, previous: &Hash) -> bool {
    event.seq == seq + 1
        && event.payload.hash() == event.payload_hash
        && event.expected_hash(previous) == event.hash
}

fn broken_at(first_bad_seq: i64, events: i64, hash: &Hash) -> Verification {
    Verification { ok: false, events, head: hex(hash), first_bad_seq: Some(first_bad_seq) }
}
