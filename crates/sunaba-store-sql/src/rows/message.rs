//! Messages.

use sunaba_types::{Message, MessageId, MessageState, MessageType, SandboxId};

use super::{Unreadable, maybe_time, readable, time};
use crate::page::Weight;

/// A row of `messages`.
#[derive(Debug)]
pub struct MessageRow {
    pub id: String,
    pub sandbox_id: String,
    pub seq: i64,
    pub content: String,
    pub message_type: String,
    pub sender: String,
    pub state: String,
    pub created_at: i64,
    pub handed_over_at: Option<i64>,
    pub acknowledged_at: Option<i64>,
    pub consumed_at: Option<i64>,
    pub consumed_seq: Option<i64>,
    pub reason: Option<String>,
}

impl Weight for MessageRow {
    fn weight(&self) -> usize {
        self.content.len()
    }
}

impl TryFrom<MessageRow> for Message {
    type Error = Unreadable;

    fn try_from(row: MessageRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "messages";
        let key = row.id.clone();
        Ok(Self {
            id: readable(MessageId::parse(row.id).ok(), TABLE, "id", &key)?,
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            seq: row.seq,
            content: row.content,
            message_type: readable(MessageType::parse(&row.message_type), TABLE, "message_type", &key)?,
            sender: row.sender,
            state: readable(MessageState::parse(&row.state), TABLE, "state", &key)?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            handed_over_at: maybe_time(row.handed_over_at, TABLE, "handed_over_at", &key)?,
            acknowledged_at: maybe_time(row.acknowledged_at, TABLE, "acknowledged_at", &key)?,
            consumed_at: maybe_time(row.consumed_at, TABLE, "consumed_at", &key)?,
            consumed_seq: row.consumed_seq,
            reason: row.reason,
        })
    }
}
