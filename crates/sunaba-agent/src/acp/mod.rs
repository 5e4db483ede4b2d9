//! The `acp` runtime: any agent that speaks the Agent Client Protocol over its standard streams.
//!
//! ```text
//!   session/prompt ───────────stdin──►┌───────┐──stdout──► session/update ──► events
//!   session/cancel, answers ─────────►│ agent │──HTTP────► base_url, and nothing else
//!   resume, fork: its files are laid ►└───────┘──► commands
//!   where it looks, and session/load
//! ```
//!
//! The protocol has one prompt at a time. Most agents take another one into the turn that runs all the same; which do
//! is known by trial and stands in [`preset`]. Of a turn that is cancelled the answer is not enough, because commands
//! can outlive it: they are watched until they are gone, and ended when they are not. An agent that does not react is
//! ended itself, and another one takes the session up.

mod again;
mod calls;
mod command;
mod cuts;
mod files;
mod gemini;
mod interrupt;
mod listen;
mod openhands;
mod output;
mod preset;
mod prompts;
mod refused;
mod run;
mod start;
mod store;
mod story;
mod translate;
mod usage;
mod wire;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Capabilities, RunContext, RunOutcome, Runtime, Transcript};
pub use preset::AcpAgent;

/// Which agent, where it is, and the runtime's bounds.
#[derive(Debug, Clone)]
pub struct AcpConfig {
    /// Which one.
    pub agent: AcpAgent,
    /// Its program with what makes that speak the protocol, when it is not the usual one on the path.
    pub program: Option<Vec<String>>,
    /// What else its environment is to hold; wins over everything.
    pub env: Vec<(String, String)>,
    /// How long it may take until it waits for a prompt.
    pub startup_patience: Duration,
    /// How long it may take to stop what it does before it is ended itself.
    pub interrupt_patience: Duration,
    /// How long an interrupted command may take to end by itself.
    pub command_grace: Duration,
    /// How long the agent may take to end before it is killed.
    pub end_grace: Duration,
    /// How long to wait for words after an interrupt.
    pub interrupt_wait: Duration,
}

impl AcpConfig {
    /// The usual bounds.
    pub fn new(agent: AcpAgent) -> Self {
        Self {
            agent,
            program: None,
            env: Vec::new(),
            startup_patience: Duration::from_secs(120),
            interrupt_patience: Duration::from_secs(3),
            command_grace: Duration::from_millis(400),
            end_grace: Duration::from_millis(1500),
            interrupt_wait: Duration::from_secs(60 * 60),
        }
    }
}

/// An agent that speaks the protocol.
#[derive(Debug)]
pub struct AcpRuntime {
    config: AcpConfig,
}

impl AcpRuntime {
    /// A runtime of this agent with these bounds.
    pub fn new(config: AcpConfig) -> Self {
        Self { config }
    }
}

#[async_trait]
impl Runtime for AcpRuntime {
    fn name(&self) -> &'static str {
        self.config.agent.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.config.agent.preset().capabilities
    }

    fn find_transcript(
        &self,
        home: &Path,
        _cwd: &Path,
        session_id: &str,
    ) -> std::io::Result<Option<Transcript>> {
        let preset = self.config.agent.preset();
        store::find(&store::dir(home, preset, session_id), preset)
    }

    async fn run(self: Box<Self>, ctx: RunContext) -> RunOutcome {
        Box::pin(run::run(self.config, ctx)).await
    }
}
