//! The words of the Messages API, both ways; those of a streamed answer are in `stream`.
//!
//! Reading is tolerant: unknown fields are ignored, unknown content blocks are kept as they came (so that a
//! later request returns them unchanged) and unknown stream events are passed over. Writing is exact: blocks
//! go out in the order in which they were put in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::UsageReport;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever asks, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// Marks the end of a prefix that the API may cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheControl {
    /// The kind of cache; the API knows `ephemeral`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl CacheControl {
    /// The five-minute cache.
    pub fn ephemeral() -> Self {
        Self { kind: "ephemeral".to_owned() }
    }
}

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Words.
    Text {
        /// The words.
        text: String,
        /// Whether a cached prefix ends here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// What the model thought; has to be returned unchanged, with its signature.
    Thinking {
        /// The thought.
        thinking: String,
        /// Proof that the thought is the model's own.
        #[serde(default)]
        signature: String,
    },
    /// The model asks for a tool.
    ToolUse {
        /// Ties the result to the request.
        id: String,
        /// The tool's name.
        name: String,
        /// Its arguments.
        #[serde(default)]
        input: Value,
    },
    /// What a tool answered.
    ToolResult {
        /// Which request it answers.
        tool_use_id: String,
        /// The answer: a string or a list of blocks.
        #[serde(default)]
        content: Value,
        /// Whether the tool failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Whether a cached prefix ends here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    /// A block of a kind that is not known here, kept as it came.
    #[serde(untagged)]
    Other(Value),
}

impl ContentBlock {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), cache_control: None }
    }

    /// A tool's answer in words.
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl Into<String>, is_error: bool) -> Self {
        Self::ToolResult {
            tool_use_id: tool_use_id.into(),
            content: Value::String(content.into()),
            is_error,
            cache_control: None,
        }
    }

    /// The same block with the end of a cached prefix on it, where the kind of block allows that.
    #[must_use]
    pub fn with_cache_mark(mut self) -> Self {
        if let Self::Text { cache_control, .. } | Self::ToolResult { cache_control, .. } = &mut self {
            *cache_control = Some(CacheControl::ephemeral());
        }
        self
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<ContentBlock>,
}

/// A part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemBlock {
    /// Always `text`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The words.
    pub text: String,
    /// Whether a cached prefix ends here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

impl SystemBlock {
    /// A part of the system prompt.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { kind: "text".to_owned(), text: text.into(), cache_control: None }
    }

    /// A part with the end of a cached prefix on it.
    pub fn cached(text: impl Into<String>) -> Self {
        Self { kind: "text".to_owned(), text: text.into(), cache_control: Some(CacheControl::ephemeral()) }
    }
}

/// A tool that the model may ask for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments.
    pub input_schema: Value,
    /// Whether a cached prefix ends here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// How the model is to think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Thinking {
    /// Up to so many tokens, which count among those of the answer.
    Enabled {
        /// How many.
        budget_tokens: u32,
    },
    /// As much as it finds right.
    Adaptive,
}

/// One model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesRequest {
    /// The model's name.
    pub model: String,
    /// Most tokens that the answer may have.
    pub max_tokens: u32,
    /// The system prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<SystemBlock>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// How to think; not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Whether the answer comes as a stream.
    #[serde(default)]
    pub stream: bool,
}

/// Tokens used, summed over calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read that were not in a cache.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from a cache.
    pub cache_read_tokens: u64,
    /// Tokens put into a cache.
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Adds what one more call used.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }

    /// Takes over what a stream reports; its numbers are totals of the call, not increments.
    pub fn apply(&mut self, report: &UsageReport) {
        let set = |field: &mut u64, value: Option<u64>| *field = value.unwrap_or(*field);
        set(&mut self.input_tokens, report.input_tokens);
        set(&mut self.output_tokens, report.output_tokens);
        set(&mut self.cache_read_tokens, report.cache_read_input_tokens);
        set(&mut self.cache_write_tokens, report.cache_creation_input_tokens);
    }
}
