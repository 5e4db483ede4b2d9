//! Entries of the feed.

use sunaba_store::{FeedEntry, PublishedPayload};
use sunaba_types::{EventPayload, ProjectId, SandboxId, Source};

use super::{Unreadable, readable, time};
use crate::page::Weight;

/// A row of `feed` with the event that it is about, if there is one.
#[derive(Debug)]
pub struct FeedRow {
    pub position: i64,
    pub project_id: Option<String>,
    pub event_type: String,
    pub entity_type: String,
    pub entity_id: String,
    pub sandbox_id: Option<String>,
    pub seq: Option<i64>,
    pub notice: Option<String>,
    pub created_at: i64,
    pub event_id: Option<String>,
    pub original_type: Option<String>,
    pub source: Option<String>,
    pub payload: Option<Vec<u8>>,
}

/// The id of an entry that is not about an event.
pub(crate) fn entry_id(position: i64) -> String {
    format!("feed-{position}")
}

impl TryFrom<FeedRow> for FeedEntry {
    type Error = Unreadable;

    fn try_from(row: FeedRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "feed";
        let key = row.position.to_string();
        let text = row.payload.and_then(|bytes| String::from_utf8(bytes).ok()).or(row.notice);
        let text = readable(text, TABLE, "payload", &key)?;
        let payload = readable(EventPayload::from_stored(text).ok(), TABLE, "payload", &key)?;
        let payload = match row.original_type {
            Some(event_type) => {
                let source = row.source.as_deref().and_then(Source::parse);
                PublishedPayload::Event { payload, source: readable(source, TABLE, "seq", &key)?, event_type }
            }
            None => PublishedPayload::Notice(payload),
        };
        Ok(Self {
            position: row.position,
            project_id: row.project_id.and_then(|id| ProjectId::parse(id).ok()),
            event_type: row.event_type,
            entity_type: row.entity_type.into(),
            entity_id: row.entity_id,
            sandbox_id: row.sandbox_id.and_then(|id| SandboxId::parse(id).ok()),
            id: row.event_id.unwrap_or_else(|| entry_id(row.position)),
            seq: row.seq,
            payload,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
        })
    }
}

impl Weight for FeedRow {
    fn weight(&self) -> usize {
        self.payload.as_ref().map_or(0, Vec::len) + self.notice.as_ref().map_or(0, String::len)
    }
}
