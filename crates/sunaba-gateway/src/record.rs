//! Writes what the gateway saw into the sandbox's log, as the server.

use serde_json::{Value, json};
use sunaba_store::{Append, Writer};
use sunaba_types::{NewEvent, SandboxId};

use crate::GatewayState;
use crate::budget::{Settled, usd};

/// What is said about one model call.
#[derive(Debug, Default)]
pub(crate) struct ModelCall {
    pub(crate) dialect: String,
    /// The model that the request named.
    pub(crate) model: String,
    /// The model that answered: the script, or the same.
    pub(crate) answered_by: String,
    pub(crate) status: u16,
    /// Tokens and cost; nothing for a call that was refused before any was reserved.
    pub(crate) settled: Settled,
    pub(crate) duration_ms: u64,
    pub(crate) first_byte_ms: Option<u64>,
    pub(crate) message_count: usize,
    /// Which turn of the script was played, from 1.
    pub(crate) script_turn: Option<usize>,
    /// Tools that the vendor would have run outside the sandbox and that were left out of the request.
    pub(crate) removed_tools: Vec<String>,
    /// Options that nothing is known about and that were left out of the request.
    pub(crate) removed_fields: Vec<String>,
    pub(crate) error: Option<String>,
}

/// Records a model call.
pub(crate) async fn model_call(state: &GatewayState, sandbox_id: &SandboxId, call: ModelCall) {
    let usage = &call.settled.usage;
    let mut payload = json!({
        "dialect": call.dialect,
        "model": call.model,
        "answered_by": call.answered_by,
        "status": call.status,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "call_id": call.settled.call_id,
        "cost_usd": usd(call.settled.cost_micros),
        "reserved_usd": usd(call.settled.reserved_micros),
        "known_by": call.settled.known_by,
        "duration_ms": call.duration_ms,
        "first_byte_ms": call.first_byte_ms,
        "message_count": call.message_count,
        "script_turn": call.script_turn,
        "error": call.error.map(shortened),
    });
    if !call.removed_tools.is_empty() {
        payload["removed_tools"] = json!(call.removed_tools);
    }
    if !call.removed_fields.is_empty() {
        payload["removed_fields"] = json!(call.removed_fields);
    }
    write(state, sandbox_id, "gateway.model_call", &payload).await;
}

/// Records a git request.
pub(crate) async fn git(state: &GatewayState, sandbox_id: &SandboxId, payload: &Value) {
    write(state, sandbox_id, "gateway.git", payload).await;
}

/// Records that the rest of a budget bounded an answer.
pub(crate) async fn budget(state: &GatewayState, sandbox_id: &SandboxId, payload: &Value) {
    write(state, sandbox_id, "gateway.budget", payload).await;
}

/// Records that a vendor takes no more calls for some time.
pub(crate) async fn quota(state: &GatewayState, sandbox_id: &SandboxId, payload: &Value) {
    write(state, sandbox_id, "gateway.quota", payload).await;
}

/// A lost record is logged and does not fail the request: the work was done.
async fn write(state: &GatewayState, sandbox_id: &SandboxId, event_type: &str, payload: &Value) {
    let append = Append {
        sandbox_id: sandbox_id.clone(),
        writer: Writer::Server,
        events: vec![NewEvent::by_server(event_type, payload)],
    };
    match state.config.store.append(append).await {
        Ok(outcomes) => {
            for rejection in outcomes.into_iter().filter_map(Result::err) {
                tracing::warn!(%sandbox_id, event_type, ?rejection, "a gateway event was not recorded");
            }
        }
        Err(error) => tracing::warn!(%sandbox_id, event_type, %error, "a gateway event was not recorded"),
    }
}

fn shortened(text: String) -> String {
    const MAX_CHARS: usize = 2000;
    if text.chars().count() <= MAX_CHARS { text } else { text.chars().take(MAX_CHARS).collect() }
}
