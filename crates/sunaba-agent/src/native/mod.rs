//! The native runtime: an agent loop over the Messages API.
//!
//! ```text
//!   prompt ──► model call ──► tool calls? ──yes──► run them all ───────┐
//!                 ▲  │                                                 │
//!                 │  └── no: messages waiting? ──no──► completed       │
//!                 └──────────── messages that arrived join ◄───────────┘
//!   interrupt, anywhere: the call or the command is stopped, tool calls without a result get one,
//!   and the loop waits for words.
//! ```
//!
//! Every step is in the session's file before the next one begins, so that the conversation can go on elsewhere.

mod call;
mod context;
mod conversation;
mod guard;
mod hands;
mod helpers;
mod policy;
mod prompt;
mod repository;
mod run;
mod session;
mod start;
mod steering;

use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_llm::Thinking;

pub(crate) use repository::instructions;
pub(crate) use steering::spoken;

use crate::{Capabilities, RunContext, RunOutcome, Runtime, Steer, Transcript};

const NAME: &str = "native";

pub use policy::ToolPolicy;

/// How failed model calls are tried again.
#[derive(Debug, Clone)]
pub struct RetryPolicy {
    /// Most tries of one call, the first one included.
    pub max_attempts: u32,
    /// The first pause; it doubles with each try.
    pub base_delay: Duration,
    /// The longest pause that is chosen here.
    pub max_delay: Duration,
    /// The longest pause that the other side may ask for; more is an error.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 6,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_secs(300),
        }
    }
}

/// What one helper may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubagentLimits {
    /// Most model calls.
    pub max_turns: u32,
    /// Most tokens, read and written; those read from a cache do not count.
    pub max_tokens: u64,
}

/// The loop's tools and bounds.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Most tokens of one answer.
    pub max_tokens: u32,
    /// How the model is asked to think. A model that refuses that is asked again, for less.
    pub thinking: Option<Thinking>,
    /// Tokens that the model takes, its answer included. Near it the conversation is put into a summary.
    pub context_window: u32,
    /// How failed model calls are tried again.
    pub retry: RetryPolicy,
    /// How long a connection to the model may take to come about.
    pub connect_timeout: Duration,
    /// How long an answer may take to begin.
    pub response_timeout: Duration,
    /// How long an answer may be silent.
    pub idle_timeout: Duration,
    /// How long an interrupted command may take to end by itself.
    pub command_grace: Duration,
    /// How long to wait for words after an interrupt.
    pub interrupt_wait: Duration,
    /// Which tools it has.
    pub tools: ToolPolicy,
    /// What one helper may use.
    pub subagents: SubagentLimits,
}

impl Default for NativeConfig {
    fn default() -> Self {
        Self {
            max_tokens: 16_384,
            thinking: Some(Thinking::Enabled { budget_tokens: 8_192 }),
            context_window: 200_000,
            retry: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(65 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
            command_grace: Duration::from_millis(400),
            interrupt_wait: Duration::from_secs(60 * 60),
            tools: ToolPolicy::default(),
            subagents: SubagentLimits { max_turns: 40, max_tokens: 500_000 },
        }
    }
}

const CAPABILITIES: Capabilities =
    Capabilities { steer: Steer::NextTool, interrupt: true, resume: true, fork: true, permissions: true };

/// An agent loop over the Messages API.
#[derive(Debug, Default)]
pub struct NativeRuntime {
    config: NativeConfig,
}

impl NativeRuntime {
    /// A runtime with these bounds.
    pub fn new(config: NativeConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Runtime for NativeRuntime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn find_transcript(&self, home: &Path, _: &Path, session_id: &str) -> io::Result<Option<Transcript>> {
        session::find(home, session_id)
    }

    async fn run(self: Box<Self>, ctx: RunContext) -> RunOutcome {
        Box::pin(start::run(self.config, ctx)).await
    }
}
