//! The feed: everything that is published, in one order.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use sunaba_types::{EventPayload, ProjectId, SandboxId, Source, Timestamp};
use tokio::sync::watch;

use crate::Result;

/// What a feed entry says.
#[derive(Debug, Clone)]
pub enum PublishedPayload {
    /// A sandbox's event, as posted; `source` and `original_event_type` are added on the wire.
    Event {
        /// The event's data.
        payload: EventPayload,
        /// Who said it.
        source: Source,
        /// Its type as posted.
        event_type: String,
    },
    /// Something the server says itself.
    Notice(EventPayload),
}

/// One published thing.
#[derive(Debug, Clone)]
pub struct FeedEntry {
    /// Its place; later entries have larger ones. Gaps are possible.
    pub position: i64,
    /// Whose it is; none means only tokens for all projects see it.
    pub project_id: Option<ProjectId>,
    /// The published name (`SANDBOX_agent.tool_use`, `TASK_CREATED`).
    pub event_type: String,
    /// `sandbox`, `task`, `ticket`, `project`.
    pub entity_type: Cow<'static, str>,
    /// The id of that entity.
    pub entity_id: String,
    /// The sandbox it belongs to.
    pub sandbox_id: Option<SandboxId>,
    /// The event's id, or one derived from the position.
    pub id: String,
    /// The event's place in its sandbox's log.
    pub seq: Option<i64>,
    /// What it says.
    pub payload: PublishedPayload,
    /// When.
    pub created_at: Timestamp,
}

impl FeedEntry {
    /// How long its payload is, in bytes.
    pub fn payload_bytes(&self) -> usize {
        match &self.payload {
            PublishedPayload::Event { payload, .. } | PublishedPayload::Notice(payload) => {
                payload.as_str().len()
            }
        }
    }
}

/// The feed.
#[async_trait]
pub trait FeedStore {
    /// Entries after a position, in order; at most `limit`. There may be more after a page of any length; none
    /// at all means that there was nothing. An entry is shared with whoever else holds it.
    async fn feed_after(&self, position: i64, limit: u32) -> Result<Vec<Arc<FeedEntry>>>;

    /// The last committed position; 0 when there is none.
    async fn feed_head(&self) -> Result<i64>;

    /// Changes whenever something was committed here: a hint, never the truth.
    fn hints(&self) -> watch::Receiver<i64>;

    /// Told by somebody else that there is something at this position: wakes those who wait for a hint, unless
    /// they know of it. It is not believed beyond that. A store that only this process writes has nothing to
    /// learn and does nothing.
    fn nudge(&self, _position: i64) {}
}
