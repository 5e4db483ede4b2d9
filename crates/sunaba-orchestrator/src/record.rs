//! Writes what the orchestrator saw and did into a sandbox's log, as the server.

use serde_json::Value;
use sunaba_store::{Append, Rejection, Writer};
use sunaba_types::{NewEvent, SandboxId};

use crate::Parts;
use crate::patience::patiently;

/// Records an event; one that the store refuses is logged, because what it tells has happened all the same.
pub(crate) async fn record(parts: &Parts, id: &SandboxId, event_type: &str, payload: &Value) {
    write(parts, id, NewEvent::by_server(event_type, payload), |_| false).await;
}

/// The same for what is true of a sandbox once, whichever nodes see it: whoever is first says it, in its own words.
pub(crate) async fn record_once(parts: &Parts, id: &SandboxId, event_type: &str, payload: &Value) {
    let mut event = NewEvent::by_server(event_type, payload);
    event.event_id = format!("{event_type}:{id}");
    write(parts, id, event, |rejection| *rejection == Rejection::EventIdConflict).await;
}

async fn write(parts: &Parts, id: &SandboxId, event: NewEvent, is_expected: fn(&Rejection) -> bool) {
    let event_type = event.event_type.clone();
    let append = Append { sandbox_id: id.clone(), writer: Writer::Server, events: vec![event] };
    match patiently(|| parts.store.append(append.clone())).await {
        Ok(outcomes) => {
            let rejections = outcomes.into_iter().filter_map(Result::err);
            for rejection in rejections.filter(|rejection| !is_expected(rejection)) {
                tracing::warn!(sandbox = %id, event_type, ?rejection, "an event was not recorded");
            }
        }
        Err(error) => tracing::warn!(sandbox = %id, event_type, %error, "an event was not recorded"),
    }
}
