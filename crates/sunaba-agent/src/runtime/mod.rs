//! The port that every agent runtime implements.
//!
//! | what is wanted | how it is said |
//! |---|---|
//! | start, resume, fork | [`RunContext::session`] |
//! | message, interrupt | [`RunContext::inbox`] |
//! | answer to a permission question | [`Asks::ask`] gives it |
//! | stop | [`RunContext::shutdown`] |
//!
//! A runtime says by [`Capabilities`] which of these it really can do, and refuses a run that needs more than that
//! instead of doing something else.

mod outcome;
mod permission;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde::Serialize;
use sunaba_llm::ApiKey;
use sunaba_types::MessageType;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::AgentEvent;

pub use outcome::{Ending, ErrorClass, RunError, RunOutcome};
pub use permission::{Answer, Asks, NobodyToAsk, PermissionMode, Question};
pub use session::{SessionStart, Transcript};

/// An agent that does one task.
#[async_trait]
pub trait Runtime: Send {
    /// The runtime's name, as users choose it.
    fn name(&self) -> &'static str;

    /// What it can do while it works.
    fn capabilities(&self) -> Capabilities;

    /// The conversation as it lies in the runtime's home, also after it was killed; none when it left none there.
    fn find_transcript(
        &self,
        home: &Path,
        cwd: &Path,
        session_id: &str,
    ) -> std::io::Result<Option<Transcript>> {
        let _ = (home, cwd, session_id);
        Ok(None)
    }

    /// Does the task. Ends by itself, or soon after `ctx.shutdown` is cancelled; leaves no process behind.
    async fn run(self: Box<Self>, ctx: RunContext) -> RunOutcome;
}

/// Where a message takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Steer {
    /// At once: the model call or the tool that runs is given up for it.
    MidTurn,
    /// In the next model call, after the tool that runs.
    NextTool,
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
    /// Whether it can be taken up under another name, so that the first one stays as it was.
    pub fork: bool,
    /// Whether it asks before it uses a tool.
    pub permissions: bool,
}

/// Takes the events of a run. Must not block: the agent waits for it.
pub trait EventSink: Send + Sync {
    /// Takes one event; the order of calls is the order of the story.
    fn emit(&self, event: AgentEvent);

    /// Waited for before a tool that may change files: until what the tool before it changed has been looked at, so
    /// that the work of two calls is told apart. Never long.
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Waited for before an interrupt is told: until nobody answers a model call of this run any more, as far as that
    /// can be seen. Never long.
    fn quiet(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
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
    /// Where it is called by those who speak OpenAI's protocols, without `/responses` and `/chat/completions`.
    pub openai_base_url: String,
    /// Where it is called by those who speak Google's, without `/v1beta`.
    pub google_base_url: String,
    /// What is shown there.
    pub api_key: ApiKey,
    /// Where the work is.
    pub cwd: PathBuf,
    /// Where the runtime keeps what is its own. Outlives the process, is not part of the work, and is the same for
    /// every run in a sandbox.
    pub home: PathBuf,
    /// Names this run's conversation; a UUID. Of a resumed one: the name that it had.
    pub session_id: String,
    /// Where the conversation begins.
    pub session: SessionStart,
    /// What it may do without being allowed to.
    pub permission_mode: PermissionMode,
    /// Who allows the rest.
    pub asks: Arc<dyn Asks>,
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

impl RunContext {
    /// Why a runtime that can do this must refuse the run.
    pub fn beyond(&self, runtime: &str, can: Capabilities) -> Option<RunError> {
        let wanted = match (&self.session, self.permission_mode) {
            (SessionStart::Resume { .. }, _) if !can.resume => "resume a session",
            (SessionStart::Fork { .. }, _) if !can.fork => "fork a session",
            (_, PermissionMode::AcceptEdits | PermissionMode::Ask) if !can.permissions => {
                "ask before it uses a tool"
            }
            _ => return None,
        };
        let message = format!("the {runtime} runtime cannot {wanted}");
        Some(RunError { class: ErrorClass::Configuration, message })
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunContext")
            .field("model", &self.model)
            .field("cwd", &self.cwd)
            .field("session_id", &self.session_id)
            .field("session", &self.session)
            .field("permission_mode", &self.permission_mode)
            .field("max_turns", &self.max_turns)
            .finish_non_exhaustive()
    }
}
