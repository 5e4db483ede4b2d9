//! How events are made: every long word is cut to a size that the log takes.

use std::time::Duration;

use serde_json::Value;

use super::{AgentEvent, Completed, Invoked};
use crate::Incoming;
use crate::text::clip;
use crate::tools::{ToolCall, ToolReply};

const CONTENT_MAX_CHARS: usize = 100_000;
const RESPONSE_MAX_CHARS: usize = 50_000;
const RESULT_MAX_CHARS: usize = 5_000;
/// Of one string in a tool's arguments.
const ARGUMENT_MAX_CHARS: usize = 30_000;
/// Of all of them together; JSON escapes can make six bytes of one character.
const ARGUMENTS_MAX_BYTES: usize = 400_000;

impl Invoked {
    pub(crate) fn new(turn: u32, call: &ToolCall, event_subtype: &'static str) -> Self {
        Self {
            turn,
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            input: clip_arguments(&call.input),
            event_subtype,
        }
    }
}

impl Completed {
    pub(crate) fn new(turn: u32, call: &ToolCall, reply: &ToolReply, duration: Duration) -> Self {
        Self {
            turn,
            tool: call.name.clone(),
            tool_use_id: call.id.clone(),
            tool_input: clip_arguments(&call.input),
            tool_response: clip(&reply.content, RESPONSE_MAX_CHARS),
            is_error: reply.is_error,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl AgentEvent {
    pub(crate) fn message_injected(turn: u32, message: Incoming) -> Self {
        Self::MessageInjected {
            content_length: message.content.chars().count(),
            message_id: message.message_id,
            message_type: message.message_type.to_string(),
            content: message.content,
            turn,
        }
    }

    pub(crate) fn system_message(turn: u32, metadata: Value) -> Self {
        Self::SystemMessage { turn, metadata: clip_arguments(&metadata) }
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

    pub(crate) fn tool_use(turn: u32, call: &ToolCall) -> Self {
        match call.name.as_str() {
            "Task" => Self::SubagentInvoked {
                subagent_type: argument(call, "subagent_type"),
                subagent_description: argument(call, "description"),
                subagent_prompt: argument(call, "prompt"),
                call: Invoked::new(turn, call, "subagent"),
            },
            "Skill" => Self::SkillInvoked {
                skill_name: argument(call, "skill"),
                call: Invoked::new(turn, call, "skill"),
            },
            _ => Self::ToolUse(Invoked::new(turn, call, "tool")),
        }
    }

    pub(crate) fn tool_completed(turn: u32, call: &ToolCall, reply: &ToolReply, duration: Duration) -> Self {
        let completed = Completed::new(turn, call, reply, duration);
        match call.name.as_str() {
            "Task" => Self::SubagentCompleted {
                subagent_type: argument(call, "subagent_type"),
                result: clip(&reply.content, RESULT_MAX_CHARS),
                usage: reply.used,
                cost_usd: None,
                call: completed,
            },
            "Skill" => Self::SkillCompleted { skill_name: argument(call, "skill"), call: completed },
            _ => Self::ToolCompleted(completed),
        }
    }

    pub(crate) fn tool_result(turn: u32, call: &ToolCall, reply: &ToolReply) -> Self {
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

/// An argument in words, where the model gave it.
fn argument(call: &ToolCall, name: &str) -> String {
    let words = call.input.get(name).and_then(Value::as_str).unwrap_or_default();
    clip(words, ARGUMENT_MAX_CHARS)
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
            json!({ "prompt": long, "description": long, "subagent_type": long, "skill": long }),
        ];
        let tools = inputs.iter().flat_map(|input| ["Grep", "Task", "Skill"].map(|name| (name, input)));
        for (name, input) in tools {
            let call = ToolCall { id: "t".into(), name: name.into(), input: input.clone() };
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

    #[test]
    fn a_helper_is_told_like_a_tool_and_more() {
        let call = ToolCall { id: "t".into(), name: "Task".into(), input: json!({ "prompt": "look" }) };
        let completed = Completed::new(2, &call, &ToolReply::ok("found"), Duration::from_millis(7));
        let plain = AgentEvent::ToolCompleted(completed.clone()).payload();
        let helper = AgentEvent::SubagentCompleted {
            call: completed,
            subagent_type: "debugger".to_owned(),
            result: "found".to_owned(),
            usage: None,
            cost_usd: None,
        };
        let payload = helper.payload();
        assert_eq!(plain["duration_ms"], 7);
        assert!(plain.iter().all(|(name, value)| payload[name] == *value), "{payload:?}");
        assert_eq!((&payload["subagent_type"], &payload["result"]), (&json!("debugger"), &json!("found")));
    }
}
