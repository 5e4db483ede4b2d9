//! What an agent tells while it works, one variant for each event type of the wire contract.
//!
//! Field names are the contract's own. Long words are cut here, so that no event comes near the largest that
//! the log takes.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::ErrorClass;
use crate::text::clip;

const CONTENT_MAX_CHARS: usize = 100_000;
const RESPONSE_MAX_CHARS: usize = 50_000;
const RESULT_MAX_CHARS: usize = 5_000;
/// Of one string in a tool's arguments.
const ARGUMENT_MAX_CHARS: usize = 30_000;
/// Of all of them together; JSON escapes can make six bytes of one character.
const ARGUMENTS_MAX_BYTES: usize = 400_000;

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
    /// Anywhere else.
    Unknown,
}

/// One thing that an agent tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the fields are those of the wire contract, which describes them")]
pub enum AgentEvent {
    /// The model answered.
    AssistantMessage { turn: u32, model: String, stop_reason: Option<String>, block_count: usize },
    /// The model thought.
    Thinking { turn: u32, content: String, thinking_type: &'static str },
    /// The model said something.
    Message { turn: u32, content: String, content_length: usize },
    /// The conversation began with this.
    UserMessage { turn: u32, content: String, content_length: usize },
    /// The model asks for a tool.
    ToolUse { turn: u32, tool: String, tool_use_id: String, input: Value, event_subtype: &'static str },
    /// A running command wrote something. `offset` counts the bytes of all chunks of this call before it.
    ToolOutput { tool_use_id: String, stream: OutputStream, chunk: String, offset: u64, truncated: bool },
    /// A tool is done.
    ToolCompleted {
        turn: u32,
        tool: String,
        tool_use_id: String,
        tool_input: Value,
        tool_response: String,
        is_error: bool,
        duration_ms: u64,
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
    /// The agent cannot go on.
    Error { error: String, phase: &'static str, error_class: ErrorClass },
}

impl AgentEvent {
    /// The type on the wire.
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::AssistantMessage { .. } => "agent.assistant_message",
            Self::Thinking { .. } => "agent.thinking",
            Self::Message { .. } => "agent.message",
            Self::UserMessage { .. } => "agent.user_message",
            Self::ToolUse { .. } => "agent.tool_use",
            Self::ToolOutput { .. } => "agent.tool_output",
            Self::ToolCompleted { .. } => "agent.tool_completed",
            Self::ToolResult { .. } => "agent.tool_result",
            Self::FileEdited { .. } => "agent.file_edited",
            Self::MessageInjected { .. } => "agent.message_injected",
            Self::Interrupted { .. } => "agent.interrupted",
            Self::Waiting { .. } => "agent.waiting",
            Self::StreamError { .. } => "agent.stream_error",
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

    pub(crate) fn message(turn: u32, content: &str) -> Self {
        let content_length = content.chars().count();
        Self::Message { turn, content: clip(content, CONTENT_MAX_CHARS), content_length }
    }

    pub(crate) fn user_message(turn: u32, content: &str) -> Self {
        let content_length = content.chars().count();
        Self::UserMessage { turn, content: clip(content, CONTENT_MAX_CHARS), content_length }
    }

    pub(crate) fn thinking(turn: u32, content: &str) -> Self {
        Self::Thinking { turn, content: clip(content, CONTENT_MAX_CHARS), thinking_type: "thinking" }
    }

    pub(crate) fn tool_use(turn: u32, call: &crate::tools::ToolCall) -> Self {
        Self::ToolUse {
            turn,
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            input: clip_arguments(&call.input),
            event_subtype: "tool",
        }
    }

    pub(crate) fn tool_completed(
        turn: u32,
        call: &crate::tools::ToolCall,
        reply: &crate::tools::ToolReply,
        duration: std::time::Duration,
    ) -> Self {
        Self::ToolCompleted {
            turn,
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            tool_input: clip_arguments(&call.input),
            tool_response: clip(&reply.content, RESPONSE_MAX_CHARS),
            is_error: reply.is_error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(crate) fn tool_result(
        turn: u32,
        call: &crate::tools::ToolCall,
        reply: &crate::tools::ToolReply,
    ) -> Self {
        let full_length = reply.content.chars().count();
        let is_search = matches!(call.name.as_str(), "Grep" | "Glob");
        let pattern = call.input.get("pattern").filter(|_| is_search);
        Self::ToolResult {
            turn,
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            input: pattern.map(|pattern| serde_json::json!({ "pattern": clip_strings(pattern) })),
            result: reply.content.chars().take(RESULT_MAX_CHARS).collect(),
            result_truncated: full_length > RESULT_MAX_CHARS,
            result_full_length: full_length,
            is_error: reply.is_error,
        }
    }
}

/// A tool's arguments in a size that the log takes; the conversation itself keeps the whole.
fn clip_arguments(input: &Value) -> Value {
    let clipped = clip_strings(input);
    let size_bytes = clipped.to_string().len();
    if size_bytes <= ARGUMENTS_MAX_BYTES {
        return clipped;
    }
    serde_json::json!({ "left_out": true, "size_bytes": size_bytes })
}

fn clip_strings(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clip(text, ARGUMENT_MAX_CHARS)),
        Value::Array(items) => Value::Array(items.iter().map(clip_strings).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), clip_strings(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sunaba_types::limits::EVENT_PAYLOAD_MAX_BYTES;

    use super::*;
    use crate::tools::{ToolCall, ToolReply};

    fn size(event: &AgentEvent) -> usize {
        Value::Object(event.payload()).to_string().len()
    }

    #[test]
    fn no_tool_makes_an_event_that_the_log_refuses() {
        // A control character is the worst case: one character, six bytes in JSON.
        let long = "\u{1}".repeat(500_000);
        let inputs = [
            json!({ "old_string": long, "new_string": long }),
            json!({ "many": vec!["\u{1}".repeat(1_000); 1_000] }),
        ];
        for input in inputs {
            let call = ToolCall { id: "t".into(), name: "Grep".into(), input };
            let reply = ToolReply::ok(long.clone());
            let events = [
                AgentEvent::tool_use(1, &call),
                AgentEvent::tool_completed(1, &call, &reply, std::time::Duration::ZERO),
                AgentEvent::tool_result(1, &call, &reply),
                AgentEvent::message(1, &long),
                AgentEvent::thinking(1, &long),
            ];
            for event in events {
                assert!(size(&event) < EVENT_PAYLOAD_MAX_BYTES, "{}: {}", event.event_type(), size(&event));
            }
        }
    }

    #[test]
    fn short_arguments_are_told_as_they_are() {
        let input = json!({ "command": "ls", "deep": [{ "er": 1 }] });
        let call = ToolCall { id: "t".into(), name: "Bash".into(), input: input.clone() };
        assert_eq!(AgentEvent::tool_use(3, &call).payload()["input"], input);
    }
}
