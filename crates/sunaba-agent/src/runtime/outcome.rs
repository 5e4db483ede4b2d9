//! How a run ended.

use serde::Serialize;
use sunaba_llm::Usage;

use super::{Incoming, Transcript};

/// How a run ended and what it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// How it ended.
    pub ending: Ending,
    /// Model calls made.
    pub turns: u32,
    /// Tokens used in all.
    pub usage: Usage,
    /// Names the conversation.
    pub session_id: String,
    /// The conversation, in the runtime's own form; none when it keeps none.
    pub transcript: Option<Transcript>,
    /// The last words of the model.
    pub final_output: String,
    /// Messages that had arrived but did not enter the conversation.
    pub undelivered: Vec<Incoming>,
}

impl RunOutcome {
    /// Whether the agent says that it is done.
    pub fn success(&self) -> bool {
        matches!(self.ending, Ending::Completed { .. })
    }

    /// The `stop_reason` of the contract.
    pub fn stop_reason(&self) -> &str {
        match &self.ending {
            Ending::Completed { stop_reason } => stop_reason,
            Ending::MaxTurns => "max_turns",
            Ending::Interrupted => "interrupted",
            Ending::Cancelled => "cancelled",
            Ending::Failed(_) => "error",
        }
    }

    /// Why there is no success; none when there is.
    pub fn error(&self) -> Option<RunError> {
        let plain = |class, message: &str| Some(RunError { class, message: message.to_owned() });
        match &self.ending {
            Ending::Completed { .. } => None,
            Ending::MaxTurns => plain(ErrorClass::MaxTurns, &format!("not done after {} turns", self.turns)),
            Ending::Interrupted => plain(ErrorClass::Interrupted, "interrupted, and no message followed"),
            Ending::Cancelled => plain(ErrorClass::Cancelled, "told to end"),
            Ending::Failed(error) => Some(error.clone()),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The model had nothing more to do.
    Completed {
        /// Its own word for why it stopped.
        stop_reason: String,
    },
    /// The turns were used up.
    MaxTurns,
    /// It was interrupted and nobody said how to go on.
    Interrupted,
    /// It was told to end.
    Cancelled,
    /// It could not go on.
    Failed(RunError),
}

/// Why a run could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RunError {
    /// What sort of reason.
    pub class: ErrorClass,
    /// The reason.
    pub message: String,
}

/// Sorts of reasons, as `error_class` tells them; whoever retries branches on these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The model's side was out of reach, or the connection kept breaking.
    Network,
    /// Too many calls, and waiting did not help.
    RateLimited,
    /// The model's side was overloaded or broken.
    Overloaded,
    /// The caller is not let in.
    Auth,
    /// The request was refused and would be again.
    InvalidRequest,
    /// What came back was not what the API promises.
    Protocol,
    /// Something here is set wrongly.
    Configuration,
    /// The agent's program ended or hung in the middle of its work.
    Crashed,
    /// The turns were used up.
    MaxTurns,
    /// It was interrupted and nobody said how to go on.
    Interrupted,
    /// It was told to end.
    Cancelled,
}

impl ErrorClass {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Auth => "auth",
            Self::InvalidRequest => "invalid_request",
            Self::Protocol => "protocol",
            Self::Configuration => "configuration",
            Self::Crashed => "crashed",
            Self::MaxTurns => "max_turns",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}
