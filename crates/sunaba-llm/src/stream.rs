//! The events of a streamed answer, read as tolerantly as the rest: what is not known here is passed over.

use serde::Deserialize;

use crate::ContentBlock;

/// Tokens as one stream event reports them; what is absent did not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UsageReport {
    /// Tokens read that were not in a cache.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens read from a cache.
    pub cache_read_input_tokens: Option<u64>,
    /// Tokens put into a cache.
    pub cache_creation_input_tokens: Option<u64>,
}

/// The beginning of an answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct MessageHead {
    /// The answer's id.
    pub id: String,
    /// The model that really answers.
    pub model: String,
    /// Tokens so far.
    pub usage: UsageReport,
}

/// How an answer ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MessageDelta {
    /// Why the model stopped.
    pub stop_reason: Option<String>,
}

/// An error told inside a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StreamError {
    /// The API's name for it.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it says.
    pub message: String,
}

/// More of a block.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type")]
pub enum BlockDelta {
    /// More words.
    #[serde(rename = "text_delta")]
    Text {
        /// The words.
        text: String,
    },
    /// More thought.
    #[serde(rename = "thinking_delta")]
    Thinking {
        /// The thought.
        thinking: String,
    },
    /// More of a thought's signature.
    #[serde(rename = "signature_delta")]
    Signature {
        /// The piece.
        signature: String,
    },
    /// More of a tool's arguments, as a piece of JSON text.
    #[serde(rename = "input_json_delta")]
    InputJson {
        /// The piece.
        partial_json: String,
    },
    /// Something not known here.
    #[serde(other)]
    Unknown,
}

/// One event of an answer's stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StreamEvent {
    /// The answer begins.
    MessageStart {
        /// Its head.
        message: MessageHead,
    },
    /// A block begins.
    ContentBlockStart {
        /// Which.
        index: usize,
        /// What is known of it.
        content_block: ContentBlock,
    },
    /// A block grows.
    ContentBlockDelta {
        /// Which.
        index: usize,
        /// By what.
        delta: BlockDelta,
    },
    /// A block is whole.
    ContentBlockStop {
        /// Which.
        index: usize,
    },
    /// The answer's end is known.
    MessageDelta {
        /// How it ends.
        delta: MessageDelta,
        /// Tokens in all.
        #[serde(default)]
        usage: UsageReport,
    },
    /// The answer is whole.
    MessageStop,
    /// The other side lives.
    Ping,
    /// The answer failed.
    Error {
        /// How.
        error: StreamError,
    },
    /// Something not known here.
    #[serde(other)]
    Unknown,
}
