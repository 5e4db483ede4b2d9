//! Writes what the orchestrator saw and did into a sandbox's log, as the server.

use serde_json::Value;
use sunaba_store::{Append, Writer};
use sunaba_types::{NewEvent, SandboxId};

use crate::Parts;
use crate::patience::patiently;

/// Records an event; one that the store refuses is logged, because what it tells has happened all the same.
pub(crate) async fn record(parts: &Parts, id: &SandboxId, event_type: &str, payload: &Value) {
    let append = Append {
        sandbox_id: id.clone(),
        writer: Writer::Server,
        events: vec![NewEvent::by_server(event_type, payload)],
    };
    match patiently(|| parts.store.append(append.clone())).await {
        Ok(outcomes) => {
            for rejection in outcomes.into_iter().filter_map(Result::err) {
                tracing::warn!(sandbox = %id, event_type, ?rejection, "an event was not recorded");
            }
        }
        Err(error) => tracing::warn!(sandbox = %id, event_type, %error, "an event was not recorded"),
    }
}
