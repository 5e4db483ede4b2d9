//! A published entry as it goes out on the WebSocket.

use axum::extract::ws::Utf8Bytes;
use sunaba_store::FeedEntry;
use sunaba_types::{ProjectId, SandboxId, topic};

/// An entry, written once for all subscribers.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) position: i64,
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) sandbox_id: Option<SandboxId>,
    /// The published name in the form in which names are compared.
    pub(crate) plain_type: String,
    pub(crate) entity_type: String,
    pub(crate) entity_id: String,
    /// The JSON text, shared by every subscriber that is sent it.
    pub(crate) text: Utf8Bytes,
}

impl Frame {
    pub(crate) fn of(entry: &FeedEntry) -> Self {
        Self {
            position: entry.position,
            project_id: entry.project_id.clone(),
            sandbox_id: entry.sandbox_id.clone(),
            plain_type: topic::normalise(&entry.event_type),
            entity_type: entry.entity_type.clone(),
            entity_id: entry.entity_id.clone(),
            text: entry.frame().into(),
        }
    }

    /// Roughly what keeping it costs.
    pub(crate) fn size_bytes(&self) -> usize {
        self.text.len() + 256
    }
}
