//! What an agent tells while it works, one variant for each event type of the wire contract.
//!
//! Field names are the contract's own. Long words are cut when an event is made, so that none comes near the
//! largest that the log takes.

mod make;

use serde::Serialize;
use serde_json::{Map, Value};
use sunaba_llm::Usage;

use crate::ErrorClass;

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeType {
    /// It was not there before.
    Created,
    /// It was there with other content.
    Modified,
}

/// Which stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where a model stream failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamErrorType {
    /// Before the answer began.
    StreamInit,
    /// The agent's program was killed.
    Sigkill,
    /// The agent's program failed.
    CommandFailed,
    /// Anywhere else.
    Unknown,
}

/// The model asks for a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract, which describes them")]
pub struct Invoked {
    pub turn: u32,
    pub tool: String,
    pub tool_use_id: String,
    pub input: Value,
    pub event_subtype: &'static str,
}

/// A tool is done.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the wire contract, which describes them")]
pub struct Completed {
    pub turn: u32,
    pub tool: String,
    pub tool_use_id: String,
    pub tool_input: Value,
    pub tool_response: String,
    pub is_error: bool,
    pub duration_ms: u64,
}

/// One thing that an agent tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the fields are those of the wire contract, which describes them")]
pub enum AgentEvent {
    /// What the runtime says about itself: its session, its tools, a step of its own.
    SystemMessage { turn: u32, metadata: Value },
    /// The model answered.
    AssistantMessage { turn: u32, model: String, stop_reason: Option<String>, block_count: usize },
    /// The model thought.
    Thinking { turn: u32, content: String, thinking_type: &'static str },
    /// The model said something.
    Message { turn: u32, content: String, content_length: usize },
    /// The conversation began with this.
    UserMessage { turn: u32, content: String, content_length: usize },
    /// The model asks for a tool.
    ToolUse(Invoked),
    /// The model sends a helper to do a part of the work.
    SubagentInvoked {
        #[serde(flatten)]
        call: Invoked,
        subagent_type: String,
        subagent_description: String,
        subagent_prompt: String,
    },
    /// The model takes up a skill.
    SkillInvoked {
        #[serde(flatten)]
        call: Invoked,
        skill_name: String,
    },
    /// A running command wrote something. `offset` counts the bytes of all chunks of this call before it.
    ToolOutput { tool_use_id: String, stream: OutputStream, chunk: String, offset: u64, truncated: bool },
    /// A tool is done.
    ToolCompleted(Completed),
    /// A helper is done.
    SubagentCompleted {
        #[serde(flatten)]
        call: Completed,
        subagent_type: String,
        result: String,
        /// What it used, when that is known.
        usage: Option<Usage>,
        cost_usd: Option<f64>,
    },
    /// A skill is done.
    SkillCompleted {
        #[serde(flatten)]
        call: Completed,
        skill_name: String,
    },
    /// What the model will be told of a tool's work.
    ToolResult {
        turn: u32,
        tool: String,
        tool_use_id: String,
        /// Of a search tool only: the trajectory leaves search noise out by this.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        result: String,
        result_truncated: bool,
        result_full_length: usize,
        is_error: bool,
    },
    /// A tool changed a file.
    FileEdited {
        turn: u32,
        tool_use_id: String,
        file_path: String,
        change_type: ChangeType,
        lines_added: usize,
        lines_removed: usize,
        diff_preview: String,
        full_diff: Option<String>,
        full_diff_available: bool,
        full_diff_size: usize,
    },
    /// A message is in the conversation that is about to be sent.
    MessageInjected {
        message_id: String,
        message_type: String,
        content: String,
        content_length: usize,
        turn: u32,
    },
    /// The agent was stopped.
    Interrupted { reason: String, message_id: Option<String>, turn: u32 },
    /// The agent waits for somebody to say something.
    Waiting { message: String },
    /// A model stream failed; it is tried again, or an error follows.
    StreamError { error: String, error_type: StreamErrorType, turn: u32, retrying: bool },
    /// A helper's step, told as the agent's own would be, with the call that sent the helper.
    Inside {
        #[serde(flatten, serialize_with = "as_payload")]
        event: Box<AgentEvent>,
        parent_tool_use_id: String,
    },
    /// The agent cannot go on.
    Error { error: String, phase: &'static str, error_class: ErrorClass },
}

/// By way of the payload: an event in an event would otherwise be a type without an end.
fn as_payload<S: serde::Serializer>(event: &AgentEvent, serializer: S) -> Result<S::Ok, S::Error> {
    event.payload().serialize(serializer)
}

impl AgentEvent {
    /// The type on the wire.
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::SystemMessage { .. } => "agent.system_message",
            Self::AssistantMessage { .. } => "agent.assistant_message",
            Self::Thinking { .. } => "agent.thinking",
            Self::Message { .. } => "agent.message",
            Self::UserMessage { .. } => "agent.user_message",
            Self::ToolUse(_) => "agent.tool_use",
            Self::SubagentInvoked { .. } => "agent.subagent_invoked",
            Self::SkillInvoked { .. } => "agent.skill_invoked",
            Self::ToolOutput { .. } => "agent.tool_output",
            Self::ToolCompleted(_) => "agent.tool_completed",
            Self::SubagentCompleted { .. } => "agent.subagent_completed",
            Self::SkillCompleted { .. } => "agent.skill_completed",
            Self::ToolResult { .. } => "agent.tool_result",
            Self::FileEdited { .. } => "agent.file_edited",
            Self::MessageInjected { .. } => "agent.message_injected",
            Self::Interrupted { .. } => "agent.interrupted",
            Self::Waiting { .. } => "agent.waiting",
            Self::StreamError { .. } => "agent.stream_error",
            Self::Inside { event, .. } => event.event_type(),
            Self::Error { .. } => "agent.error",
        }
    }

    /// The fields on the wire.
    pub fn payload(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            // Every variant is a struct of plain fields, which always becomes an object.
            Ok(_) | Err(_) => Map::new(),
        }
    }
}
