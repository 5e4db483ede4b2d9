//! The `claude` runtime: the Claude Code CLI over its control protocol.
//!
//! ```text
//!   prompt, messages ──stdin──►┌─────┐──stdout──► lines ──► events
//!   interrupt, answers ───────►│ CLI │──HTTP────► base_url, and nothing else
//!   resume, fork: a transcript ►└─────┘──► commands, each in a session of its own
//!   is laid where it looks
//! ```
//!
//! A message goes in at once and counts as consumed when the CLI tells it back, which it does when it puts it into
//! the conversation. An interrupt is a request first; the CLI's answer is not enough, because its commands can
//! outlive that: they are watched until they are gone, and ended when they are not. A CLI that does not react is
//! ended itself, and another one takes the conversation up.

mod calls;
mod command;
mod cuts;
mod interrupt;
mod listen;
mod lost;
mod outbox;
mod process;
mod questions;
mod run;
mod start;
mod store;
mod story;
mod wire;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use crate::{Capabilities, RunContext, RunOutcome, Runtime, Steer, ToolPolicy, Transcript};

const NAME: &str = "claude";
const CAPABILITIES: Capabilities =
    Capabilities { steer: Steer::NextTool, interrupt: true, resume: true, fork: true, permissions: true };

/// Where the CLI is, and the runtime's bounds.
#[derive(Debug, Clone)]
pub struct ClaudeConfig {
    /// The CLI; a name without a slash is looked for on the path.
    pub program: PathBuf,
    /// What else its environment is to hold; wins over everything.
    pub env: Vec<(String, String)>,
    /// How long it may take until its first turn begins.
    pub startup_patience: Duration,
    /// How long it may take to stop what it does before it is ended itself.
    pub interrupt_patience: Duration,
    /// How long an interrupted command may take to end by itself.
    pub command_grace: Duration,
    /// How long the CLI may take to end before it is killed.
    pub end_grace: Duration,
    /// How long to wait for words after an interrupt.
    pub interrupt_wait: Duration,
    /// Which tools it has.
    pub tools: ToolPolicy,
}

impl Default for ClaudeConfig {
    fn default() -> Self {
        Self {
            program: PathBuf::from("claude"),
            env: Vec::new(),
            startup_patience: Duration::from_secs(120),
            interrupt_patience: Duration::from_secs(3),
            command_grace: Duration::from_millis(400),
            end_grace: Duration::from_millis(1500),
            interrupt_wait: Duration::from_secs(60 * 60),
            tools: ToolPolicy::default(),
        }
    }
}

/// The Claude Code CLI.
#[derive(Debug, Default)]
pub struct ClaudeRuntime {
    config: ClaudeConfig,
}

impl ClaudeRuntime {
    /// A runtime with these bounds.
    pub fn new(config: ClaudeConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Runtime for ClaudeRuntime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn find_transcript(
        &self,
        home: &Path,
        cwd: &Path,
        session_id: &str,
    ) -> std::io::Result<Option<Transcript>> {
        store::find(home, cwd, session_id)
    }

    async fn run(self: Box<Self>, ctx: RunContext) -> RunOutcome {
        Box::pin(run::run(self.config, ctx)).await
    }
}
