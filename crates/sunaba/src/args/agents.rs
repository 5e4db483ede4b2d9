//! The agents that can drive sandboxes.

use clap::{Args, Subcommand};

use super::seconds;

/// What to do with agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List them: whether each is installed, and what it can do
    List,
    /// Try one in a real sandbox, with a scripted model: a tool, edits, a message and an interrupt while it works
    Test(AgentTestArgs),
}

/// `sunaba agent test`
#[derive(Debug, Args)]
pub(crate) struct AgentTestArgs {
    /// Its name, or acp: and a command line
    pub(crate) name: String,
    /// What makes the sandbox: local, docker
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// How long all of it may take: 90s, 15m
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "5m")]
    pub(crate) timeout: i64,
}
