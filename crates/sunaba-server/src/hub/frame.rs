//! A published entry as it goes out on the WebSocket.

use std::sync::{Arc, OnceLock};

use axum::extract::ws::Utf8Bytes;
use sunaba_store::FeedEntry;
use sunaba_types::{ProjectId, SandboxId, topic};

/// An entry, written once for all subscribers, when the first of them wants it; nearly all are wanted by nobody.
#[derive(Debug)]
pub(crate) struct Frame {
    entry: Arc<FeedEntry>,
    plain_type: OnceLock<String>,
    text: OnceLock<Utf8Bytes>,
}

impl Frame {
    pub(crate) fn of(entry: Arc<FeedEntry>) -> Self {
        Self { entry, plain_type: OnceLock::new(), text: OnceLock::new() }
    }

    /// The published name in the form in which names are compared.
    pub(crate) fn plain_type(&self) -> &str {
        self.plain_type.get_or_init(|| topic::normalise(&self.entry.event_type))
    }

    pub(crate) fn position(&self) -> i64 {
        self.entry.position
    }

    pub(crate) fn project_id(&self) -> Option<&ProjectId> {
        self.entry.project_id.as_ref()
    }

    pub(crate) fn sandbox_id(&self) -> Option<&SandboxId> {
        self.entry.sandbox_id.as_ref()
    }

    pub(crate) fn entity_type(&self) -> &str {
        &self.entry.entity_type
    }

    pub(crate) fn entity_id(&self) -> &str {
        &self.entry.entity_id
    }

    /// The JSON text, shared by every subscriber that is sent it.
    pub(crate) fn text(&self) -> Utf8Bytes {
        self.text.get_or_init(|| self.entry.frame().into()).clone()
    }

    /// Roughly what keeping it costs: the payload, and once more as part of the text.
    pub(crate) fn size_bytes(&self) -> usize {
        2 * self.entry.payload_bytes() + 512
    }
}

#[cfg(test)]
impl Frame {
    /// One of sandbox `s1`.
    pub(super) fn at(position: i64) -> Self {
        use sunaba_store::PublishedPayload;
        use sunaba_types::{EventPayload, Timestamp};
        Self::of(Arc::new(FeedEntry {
            position,
            project_id: None,
            event_type: "SANDBOX_agent.tool_use".to_owned(),
            entity_type: "sandbox".into(),
            entity_id: "s1".to_owned(),
            sandbox_id: None,
            id: "e1".to_owned(),
            seq: None,
            payload: PublishedPayload::Notice(EventPayload::empty()),
            created_at: Timestamp::UNIX_EPOCH,
        }))
    }
}
