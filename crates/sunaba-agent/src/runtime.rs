//! The port that every agent runtime implements.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use sunaba_llm::{ApiKey, Usage};
use sunaba_types::MessageType;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::AgentEvent;

/// An agent that does one task.
#[async_trait]
pub trait Runtime: Send {
    /// The runtime's name, as users choose it.
    fn name(&self) -> &'static str;

    /// What it can do while it works.
    fn capabilities(&self) -> Capabilities;

    /// Does the task. Ends by itself, or soon after `ctx.shutdown` is cancelled; leaves no process behind.
    async fn run(self: Box<Self>, ctx: RunContext) -> RunOutcome;
}

/// Where a message takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Steer {
    /// In the next model call, between two tool calls.
    NextModelCall,
    /// When the agent has nothing more to say.
    EndOfTurn,
}

/// What a runtime can do while it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Where a message takes effect.
    pub steer: Steer,
    /// Whether it can be stopped at once and told to go on.
    pub interrupt: bool,
    /// Whether an ended session can be taken up again.
    pub resume: bool,
}

/// Takes the events of a run. Must not block: the agent waits for it.
pub trait EventSink: Send + Sync {
    /// Takes one event; the order of calls is the order of the story.
    fn emit(&self, event: AgentEvent);
}

/// Something said to the agent while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// The message's id, returned when it has been consumed.
    pub message_id: String,
    /// What kind it is; an interrupt stops the agent at once.
    pub message_type: MessageType,
    /// What is said. An interrupt with nothing but white space only stops the agent.
    pub content: String,
    /// Who says it.
    pub sender: String,
}

/// Everything a run needs.
pub struct RunContext {
    /// The task, in words.
    pub prompt: String,
    /// The model's name.
    pub model: String,
    /// Where the model is called, without `/v1/messages`.
    pub base_url: String,
    /// What is shown there.
    pub api_key: ApiKey,
    /// Where the work is.
    pub cwd: PathBuf,
    /// Most model calls.
    pub max_turns: u32,
    /// Takes the place of the built-in system prompt.
    pub system_prompt: Option<String>,
    /// Comes after the system prompt.
    pub system_prompt_append: Option<String>,
    /// Takes the events.
    pub events: Arc<dyn EventSink>,
    /// Brings messages. Bounded by whoever made it.
    pub inbox: mpsc::Receiver<Incoming>,
    /// Ends the run early.
    pub shutdown: CancellationToken,
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunContext")
            .field("model", &self.model)
            .field("cwd", &self.cwd)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}

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
            Self::MaxTurns => "max_turns",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}
