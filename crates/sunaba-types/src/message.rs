//! Messages: things said to an agent while it works.

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;
use crate::{MessageId, SandboxId, Timestamp};

wire_enum!(
    /// What kind of thing is said.
    MessageType {
        /// A person says something.
        UserMessage => "user_message",
        /// Stop at once.
        Interrupt => "interrupt",
        /// The guardian says something.
        GuardianNudge => "guardian_nudge",
        /// Advice that need not be answered.
        Guidance => "guidance",
        /// The server says something.
        System => "system",
    }
);

wire_enum!(
    /// How far a message has come.
    MessageState {
        /// Waits for the worker.
        Queued => "queued",
        /// The worker has it.
        HandedOver => "handed_over",
        /// It is in the agent's conversation.
        Consumed => "consumed",
        /// A later message took its place.
        Superseded => "superseded",
        /// It could not be delivered; the reason says why.
        Expired => "expired",
    }
);

/// A message on its way in.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// Whom it is for.
    pub sandbox_id: SandboxId,
    /// What is said.
    pub content: String,
    /// What kind it is.
    pub message_type: MessageType,
    /// Who says it: a token's name.
    pub sender: String,
}

/// A message and its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Whom it is for.
    pub sandbox_id: SandboxId,
    /// Its number among this sandbox's messages, from 1.
    pub seq: i64,
    /// What is said.
    pub content: String,
    /// What kind it is.
    pub message_type: MessageType,
    /// Who says it.
    pub sender: String,
    /// How far it has come.
    pub state: MessageState,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When the worker first got it.
    pub handed_over_at: Option<Timestamp>,
    /// When the worker said it has it.
    pub acknowledged_at: Option<Timestamp>,
    /// When it entered the conversation.
    pub consumed_at: Option<Timestamp>,
    /// The event at which it did.
    pub consumed_seq: Option<i64>,
    /// Why it was superseded or expired.
    pub reason: Option<String>,
}
