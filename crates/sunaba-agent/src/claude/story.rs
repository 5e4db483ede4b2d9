//! Makes the contract's events of what the CLI says.

use std::sync::Arc;

use serde_json::{Map, Value};
use sunaba_llm::Usage;

use super::calls::Calls;
use super::wire::{Block, Content, Said, StreamEvent, TurnResult};
use crate::child::Unreadable;
use crate::tools::{ToolCall, ToolReply};
use crate::{AgentEvent, EventSink, StreamErrorType};

/// The model's name on what the CLI says in its place.
const SYNTHETIC: &str = "<synthetic>";
/// What the CLI says about itself and nobody needs: how far a call is, and its hooks, which are ours.
const NOISE: [&str; 7] = [
    "status",
    "thinking_tokens",
    "task_progress",
    "task_updated",
    "hook_started",
    "hook_progress",
    "hook_response",
];
/// Of what it says at the beginning of a turn, what is told.
const INIT_FIELDS: [&str; 9] = [
    "subtype",
    "session_id",
    "cwd",
    "model",
    "permissionMode",
    "claude_code_version",
    "tools",
    "mcp_servers",
    "apiKeySource",
];

pub(super) struct Story {
    events: Arc<dyn EventSink>,
    pub(super) calls: Calls,
    /// Model calls of the main conversation.
    pub(super) turns: u32,
    /// As the stream tells it; what was cut off counts too.
    streamed: Usage,
    /// As the CLI counts it, helpers included; of the processes before this one and of this one.
    counted_before: Usage,
    counted: Usage,
    model: String,
    blocks: usize,
    /// The model has begun to answer what it was last told.
    has_begun: bool,
    stop_reason: Option<String>,
    words: Vec<String>,
    pub(super) final_output: String,
    pub(super) session_id: Option<String>,
    introduced: bool,
    unreadable: Unreadable,
}

impl Story {
    pub(super) fn new(events: Arc<dyn EventSink>, calls: Calls) -> Self {
        Self {
            events,
            calls,
            turns: 0,
            streamed: Usage::default(),
            counted_before: Usage::default(),
            counted: Usage::default(),
            model: String::new(),
            blocks: 0,
            has_begun: false,
            stop_reason: None,
            words: Vec::new(),
            final_output: String::new(),
            session_id: None,
            introduced: false,
            unreadable: Unreadable::default(),
        }
    }

    /// What was used in all: the greater of two counts, each of which misses something.
    pub(super) fn usage(&self) -> Usage {
        let mut counted = self.counted_before;
        counted.add(self.counted);
        let streamed = self.streamed;
        Usage {
            input_tokens: counted.input_tokens.max(streamed.input_tokens),
            output_tokens: counted.output_tokens.max(streamed.output_tokens),
            cache_read_tokens: counted.cache_read_tokens.max(streamed.cache_read_tokens),
            cache_write_tokens: counted.cache_write_tokens.max(streamed.cache_write_tokens),
        }
    }

    /// Another process goes on, which counts from zero.
    pub(super) fn next_process(&mut self) {
        self.counted_before.add(std::mem::take(&mut self.counted));
    }

    pub(super) fn system(&mut self, fields: Map<String, Value>) {
        let subtype = fields.get("subtype").and_then(Value::as_str).unwrap_or_default();
        match subtype {
            "init" => self.init(&fields),
            "api_retry" => self.api_retry(&fields),
            noise if NOISE.contains(&noise) => {}
            _ => self.events.emit(AgentEvent::system_message(self.turns, Value::Object(fields))),
        }
    }

    fn init(&mut self, fields: &Map<String, Value>) {
        self.session_id = fields.get("session_id").and_then(Value::as_str).map(str::to_owned);
        // It introduces itself before every turn.
        if !std::mem::replace(&mut self.introduced, true) {
            let told =
                INIT_FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone())));
            self.events.emit(AgentEvent::system_message(self.turns, Value::Object(told.collect())));
        }
    }

    /// A call failed and is tried again: stalled, not dead.
    fn api_retry(&self, fields: &Map<String, Value>) {
        let number = |name: &str| fields.get(name).and_then(Value::as_f64).map_or(0, |number| number as u64);
        let what = fields.get("error").and_then(Value::as_str).unwrap_or("error");
        let status = match number("error_status") {
            0 => String::new(),
            status => format!(" (status {status})"),
        };
        let error = format!(
            "{what}{status}; try {} of {} failed, again in {} ms",
            number("attempt"),
            number("max_retries"),
            number("retry_delay_ms")
        );
        self.stream_error(error, StreamErrorType::StreamInit, true);
    }

    pub(super) fn stream_error(&self, error: String, error_type: StreamErrorType, retrying: bool) {
        self.events.emit(AgentEvent::StreamError { error, error_type, turn: self.turns, retrying });
    }

    /// The beginning and the end of an answer of the main conversation.
    pub(super) fn stream(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::MessageStart { message } => {
                self.turns += 1;
                self.has_begun = true;
                let mut usage = Usage::default();
                usage.apply(&message.usage);
                // What is written is told at the end, in all.
                usage.output_tokens = 0;
                self.streamed.add(usage);
                (self.model, self.blocks, self.stop_reason) = (message.model, 0, None);
                self.words.clear();
            }
            StreamEvent::ContentBlockStart {} => self.blocks += 1,
            StreamEvent::MessageDelta { delta, usage } => {
                self.streamed.output_tokens += usage.output_tokens.unwrap_or(0);
                self.stop_reason = delta.stop_reason;
            }
            StreamEvent::MessageStop {} => self.events.emit(AgentEvent::AssistantMessage {
                turn: self.turns,
                model: self.model.clone(),
                stop_reason: self.stop_reason.clone(),
                block_count: self.blocks,
            }),
            StreamEvent::Other => {}
        }
    }

    /// Whether the model has said the last word of what it was asked for.
    pub(super) fn is_answered(&self) -> bool {
        self.stop_reason.as_deref() == Some("end_turn")
    }

    /// Whether an answer was under way; without one a call that fails was not cut, but never answered.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Something was said to the model, which it has not answered yet.
    pub(super) fn asked_again(&mut self) {
        (self.has_begun, self.stop_reason) = (false, None);
    }

    pub(super) fn assistant(&mut self, said: Said) {
        if said.message.model == SYNTHETIC {
            // The CLI's own words about a failed call; the result says the same.
            return;
        }
        let is_main = said.parent_tool_use_id.is_none();
        for block in said.message.content.blocks() {
            match block {
                Block::Text { text } if !text.trim().is_empty() => {
                    self.events.emit(AgentEvent::message(self.turns, &text));
                    if is_main {
                        self.words.push(text);
                        self.final_output = self.words.join("\n");
                    }
                }
                Block::Thinking { thinking } => self.events.emit(AgentEvent::thinking(self.turns, &thinking)),
                Block::ToolUse { id, name, input } => {
                    self.calls.begin(self.turns, ToolCall { id, name, input });
                }
                Block::Text { .. } | Block::ToolResult { .. } | Block::Other => {}
            }
        }
    }

    /// Results of tools; whatever else stands in a user's place was said by us or by the CLI.
    pub(super) fn user(&mut self, said: Said) {
        let Content::Blocks(blocks) = said.message.content else { return };
        for block in blocks {
            if let Block::ToolResult { tool_use_id, content, is_error } = block {
                let content = plain(&content);
                let reply =
                    if is_error == Some(true) { ToolReply::error(content) } else { ToolReply::ok(content) };
                self.calls.end(&tool_use_id, &reply, &said.tool_use_result);
                if self.stop_reason.is_some() {
                    self.asked_again();
                }
            }
        }
    }

    pub(super) fn result(&mut self, result: &TurnResult) {
        let mut counted = Usage::default();
        for usage in result.model_usage.values() {
            counted.add(Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_input_tokens,
                cache_write_tokens: usage.cache_creation_input_tokens,
            });
        }
        self.counted = counted;
    }

    /// A line that makes no sense is told and left out; many are counted.
    pub(super) fn unreadable(&mut self, size_bytes: usize, beginning: &[u8], reason: &str) {
        if let Some(metadata) = self.unreadable.count(size_bytes, beginning, reason) {
            self.events.emit(AgentEvent::system_message(self.turns, metadata));
        }
    }
}

/// The words of a tool's result.
fn plain(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let words: Vec<_> = blocks
                .iter()
                .map(|block| match block.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => format!("[{}]", block.get("type").and_then(Value::as_str).unwrap_or("block")),
                })
                .collect();
            words.join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
