//! Conversations of agents as they are kept, and how a sandbox takes one up.

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;
use crate::{BlobHash, SandboxId, Timestamp};

/// Where a conversation of a sandbox is kept, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptRecord {
    /// The sandbox that sent it.
    pub sandbox_id: SandboxId,
    /// The conversation's own name. Another sandbox that goes on with it uses the same one.
    pub session_id: String,
    /// The only runtime that can read it.
    pub runtime: String,
    /// Its bytes.
    pub hash: BlobHash,
    /// How many.
    pub size_bytes: i64,
    /// How many turns were made in this sandbox.
    pub turns: i64,
    /// When it was sent.
    pub updated_at: Timestamp,
}

wire_enum!(
    /// Why a sandbox goes on with a conversation.
    ResumeCause {
        /// Whoever asked for the sandbox named it.
        Asked => "asked",
        /// Somebody said something after the sandbox before was over.
        Message => "message",
        /// The sandbox before died in the middle of its work.
        Died => "died",
        /// The answer that its task waited for has come.
        Answer => "answer",
        /// The limit that its task waited for was reset.
        Quota => "quota",
    }
);

/// The conversation that a sandbox goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Its name.
    pub session_id: String,
    /// The sandbox that sent it.
    pub from: SandboxId,
    /// Whether it goes on under another name, so that the first one stays as it was.
    #[serde(default)]
    pub fork: bool,
    /// Why.
    pub because: ResumeCause,
    /// The tool call whose result is the last of it that counts; none: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}
