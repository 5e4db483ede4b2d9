//! Events.

use sunaba_types::{EventPayload, SandboxId, Source, StoredEvent};

use super::{Unreadable, hash, readable, time};
use crate::page::Weight;

/// A row of `events` as it is read.
#[derive(Debug)]
pub struct EventRow {
    pub sandbox_id: String,
    pub seq: i64,
    pub event_id: String,
    pub event_type: String,
    pub source: String,
    /// The bytes that were received.
    pub payload: Vec<u8>,
    pub created_at: i64,
    pub payload_hash: Vec<u8>,
    pub hash: Vec<u8>,
}

impl Weight for EventRow {
    fn weight(&self) -> usize {
        self.payload.len()
    }
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = Unreadable;

    fn try_from(row: EventRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "events";
        let key = format!("{} {}", row.sandbox_id, row.seq);
        let payload = readable(String::from_utf8(row.payload).ok(), TABLE, "payload", &key)?;
        Ok(Self {
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            seq: row.seq,
            event_id: row.event_id,
            event_type: row.event_type,
            source: readable(Source::parse(&row.source), TABLE, "source", &key)?,
            payload: readable(EventPayload::from_stored(payload).ok(), TABLE, "payload", &key)?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            payload_hash: hash(&row.payload_hash, TABLE, "payload_hash", &key)?,
            hash: hash(&row.hash, TABLE, "hash", &key)?,
        })
    }
}
