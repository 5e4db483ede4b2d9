//! What the rules say of messages; which ones there are, the store knows.

use serde_json::json;
use sunaba_store::{Error, Queued, Result, TakeMode};
use sunaba_types::limits::{MESSAGE_REDELIVERY_SECONDS, MESSAGES_MAX_WAITING};
use sunaba_types::{Message, MessageId, MessageState, NewMessage, SandboxId, Timestamp};

use super::{Draft, Notice};

/// Most content handed over by one poll; the rest comes with the next.
const TAKE_MAX_BYTES: usize = 4 * 1024 * 1024;

impl Draft {
    /// Refuses a message that nobody would take, or one too many.
    pub fn refuse_message(&mut self, id: &SandboxId, outstanding: i64) -> Result<()> {
        let sandbox = &self.get_sandbox(id)?.row;
        if sandbox.state.is_terminal() {
            let detail = format!("sandbox {id} is {}; nobody will take the message", sandbox.state);
            return Err(Error::conflict("sandbox_ended", detail));
        }
        if outstanding >= i64::try_from(MESSAGES_MAX_WAITING).unwrap_or(i64::MAX) {
            let detail = format!("{MESSAGES_MAX_WAITING} messages wait for sandbox {id} already");
            return Err(Error::Full { code: "message_queue_full", detail });
        }
        Ok(())
    }

    /// Says that a message was stored, which now waits as one of `queue_size`.
    pub fn message_queued(&mut self, new: &NewMessage, id: MessageId, seq: i64, queue_size: i64) -> Queued {
        let message = Message {
            id,
            sandbox_id: new.sandbox_id.clone(),
            seq,
            content: new.content.clone(),
            message_type: new.message_type,
            sender: new.sender.clone(),
            state: MessageState::Queued,
            created_at: self.now,
            handed_over_at: None,
            acknowledged_at: None,
            consumed_at: None,
            consumed_seq: None,
            reason: None,
        };
        let payload = json!({
            "sandbox_id": message.sandbox_id, "message_id": message.id, "message_type": message.message_type,
            "content": message.content, "sender": message.sender, "queue_size": queue_size,
        });
        self.publish_of_message(&new.sandbox_id, "SANDBOX_MESSAGE_QUEUED", payload);
        Queued { message, queue_size }
    }

    /// Messages as they are once handed over; says so of each.
    pub fn messages_handed_over(&mut self, id: &SandboxId, mut taken: Vec<Message>) -> Vec<Message> {
        for message in &mut taken {
            let again = message.handed_over_at.is_some();
            message.state = MessageState::HandedOver;
            message.handed_over_at.get_or_insert(self.now);
            let payload = json!({
                "sandbox_id": id, "message_id": message.id, "message_type": message.message_type,
                "redelivery": again,
            });
            self.publish_of_message(id, "SANDBOX_MESSAGE_DELIVERED", payload);
        }
        taken
    }

    fn publish_of_message(&mut self, id: &SandboxId, event_type: &str, payload: serde_json::Value) {
        let project_id = self.sandbox(id).row.project_id.clone();
        self.publish(Notice {
            project_id: project_id.as_ref(),
            event_type,
            entity_type: "sandbox",
            entity_id: id.as_str(),
            sandbox_id: Some(id),
            payload,
        });
    }
}

/// What was handed over until then and not acknowledged is offered again.
pub fn overdue_at(now: Timestamp, mode: &TakeMode) -> i64 {
    match mode {
        TakeMode::Explicit { again: true, .. } => now.as_microsecond(),
        _ => now.as_microsecond() - MESSAGE_REDELIVERY_SECONDS * 1_000_000,
    }
}

/// As many messages, from the front, as one answer may hold; at least one.
pub fn bounded(mut messages: Vec<Message>) -> Vec<Message> {
    let mut bytes = 0;
    let fits = messages
        .iter()
        .take_while(|message| {
            let first = bytes == 0;
            bytes += message.content.len().max(1);
            first || bytes <= TAKE_MAX_BYTES
        })
        .count();
    messages.truncate(fits);
    messages
}
