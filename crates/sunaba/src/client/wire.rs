//! What the server's answers look like, as far as the commands read them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sunaba_types::shim::Exit;
use sunaba_types::{
    Egress, MessageId, MessageState, MessageType, Resources, SandboxId, SandboxState, TaskId, Timestamp,
};

/// A sandbox as the server shows it. What is not read here is passed on as it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    /// Its id.
    pub(crate) id: SandboxId,
    /// The task it works on.
    #[serde(default)]
    pub(crate) task_id: Option<TaskId>,
    /// Which attempt at that task it is.
    pub(crate) attempt: i64,
    /// What makes it.
    pub(crate) provider: String,
    /// Where it is.
    pub(crate) state: SandboxState,
    /// Since when.
    pub(crate) state_entered_at: Timestamp,
    /// Why it failed or was cancelled.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// Which agent drives it.
    pub(crate) runtime: String,
    /// Which model it speaks to.
    pub(crate) model: String,
    /// What the agent is told.
    pub(crate) prompt: String,
    /// The branch it works on.
    #[serde(default)]
    pub(crate) branch_name: Option<String>,
    /// The commit it started from.
    #[serde(default)]
    pub(crate) base_commit: Option<String>,
    /// The commit it ended with.
    #[serde(default)]
    pub(crate) head_commit: Option<String>,
    /// How well it is shut in.
    #[serde(default)]
    pub(crate) isolation: Option<String>,
    /// What it may use.
    pub(crate) resources: Resources,
    /// On what terms it was asked for.
    #[serde(default)]
    pub(crate) terms: SandboxTerms,
    /// What it may reach.
    #[serde(default)]
    pub(crate) egress: Option<Egress>,
    /// What its model calls cost so far.
    #[serde(default)]
    pub(crate) cost_usd: f64,
    /// How it ended at its provider.
    #[serde(default)]
    pub(crate) exit: Option<Exit>,
    /// When it was asked for.
    pub(crate) created_at: Timestamp,
    /// When it ended.
    #[serde(default)]
    pub(crate) ended_at: Option<Timestamp>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: serde_json::Map<String, Value>,
}

/// On what terms a sandbox was asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct SandboxTerms {
    /// What its task may spend on models.
    #[serde(default)]
    pub(crate) budget_usd: Option<f64>,
    /// How long its agent may work in it, all rounds together.
    #[serde(default)]
    pub(crate) timeout_seconds: Option<i64>,
    /// Why its place was given up while its task waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) suspended: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub(crate) rest: serde_json::Map<String, Value>,
}

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
    pub(crate) fn new_state(&self) -> Option<SandboxState> {
        if self.event_type != "sandbox.state_changed" || self.source != "system" {
            return None;
        }
        SandboxState::parse(self.text("to")?)
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
    /// The sandbox that takes it.
    pub(crate) sandbox_id: String,
    /// How many wait now.
    pub(crate) queue_size: i64,
    /// What becomes of it; older servers do not say.
    #[serde(default)]
    pub(crate) effect: String,
    /// The same in words.
    #[serde(default)]
    pub(crate) detail: String,
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
