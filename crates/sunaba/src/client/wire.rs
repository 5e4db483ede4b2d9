//! What the server's answers look like, as far as the commands read them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sunaba_types::{MessageId, MessageState, MessageType, Timestamp};

/// One line of a sandbox's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    /// Its id.
    pub(crate) id: String,
    /// Its place in the log.
    pub(crate) seq: i64,
    /// Whose log.
    pub(crate) sandbox_id: String,
    /// What happened.
    pub(crate) event_type: String,
    /// The details.
    #[serde(default)]
    pub(crate) event_data: Value,
    /// Who said so.
    pub(crate) source: String,
    /// When it was stored.
    pub(crate) created_at: Timestamp,
}

impl Event {
    /// A text field of the details.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.event_data.get(name).and_then(Value::as_str)
    }

    /// A whole-number field of the details.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.event_data.get(name).and_then(Value::as_i64)
    }

    /// A yes-or-no field of the details; absent is no.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.event_data.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The state this event moves the sandbox to, if it does.
    pub(crate) fn new_state(&self) -> Option<sunaba_types::SandboxState> {
        if self.event_type != "sandbox.state_changed" || self.source != "system" {
            return None;
        }
        sunaba_types::SandboxState::parse(self.text("to")?)
    }
}

/// A page of a log, newest first.
#[derive(Debug, Deserialize)]
pub(super) struct EventPage {
    pub(super) events: Vec<Event>,
}

/// The answer to a message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentMessage {
    /// How far it is.
    pub(crate) status: String,
    /// Its id.
    pub(crate) message_id: MessageId,
    /// How many wait now.
    pub(crate) queue_size: i64,
}

/// A message and its fate.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MessageFate {
    /// Its id.
    pub(crate) id: MessageId,
    /// What is said.
    pub(crate) content: String,
    /// What kind it is.
    pub(crate) message_type: MessageType,
    /// Who says it.
    pub(crate) sender: String,
    /// How far it has come.
    pub(crate) state: MessageState,
    /// When it was queued.
    pub(crate) created_at: Timestamp,
    /// The event at which it entered the conversation.
    pub(crate) consumed_seq: Option<i64>,
    /// Why it was superseded or expired.
    pub(crate) reason: Option<String>,
}
