//! The scripted model: canned words for a model, so that everything else can be real.
//!
//! A script is a YAML list of turns. Which turn answers a request follows from
//! the request alone ([`play`]), so a restart or a retry changes nothing. A
//! turn with `when:` answers only requests that it matches and does not use up
//! a place in the main line. See `docs` of [`Turn`](turn::Turn) for the keys.

mod conversation;
mod format;
mod patch;
mod play;
mod tools;
mod turn;

pub(crate) use conversation::{Conversation, OfferedTool, Said, Speaker, ToolKind};
pub use format::{DEFAULT_SCRIPT, SCRIPT_MAX_BYTES, Script, ScriptError};
pub(crate) use play::{Block, Played, Reply, StopReason, ToolCall, estimate_tokens, play};
