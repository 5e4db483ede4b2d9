//! `GET /api/v1/sandboxes/{id}/verify`: walks the hash chain of the log.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::walk_chain;
use sunaba_types::SandboxId;
use sunaba_types::chain::hex;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::IdPath;

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
    let walked = walk_chain(&**state.store(), &id, &head).await?;
    ok(&Verification {
        ok: walked.first_bad_seq.is_none(),
        events: walked.events,
        head: hex(&walked.head),
        first_bad_seq: walked.first_bad_seq,
    })
}
