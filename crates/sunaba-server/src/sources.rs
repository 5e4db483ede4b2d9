//! What the server shows and others hold: raw output, what providers can do, readiness of parts.

use async_trait::async_trait;
use bytes::Bytes;
use sunaba_nodes::wire::{Ground, Published};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{Finding, Isolation, Resources, Sandbox, SandboxId};

/// Why a source gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is nothing to show yet, or not any more; the text says why.
    #[error("{0}")]
    Absent(String),
    /// A step whose files did not arrive, or not yet.
    #[error("{0}")]
    NotPushed(String),
    /// The step has no such path.
    #[error("{0}")]
    NoSuchPath(String),
    /// It is more than is shown.
    #[error("{0}")]
    TooLarge(String),
    /// It could not be read.
    #[error("the source failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Gives what a sandbox's processes printed.
#[async_trait]
pub trait LogSource: Send + Sync + std::fmt::Debug {
    /// The last `max_bytes` of the raw output.
    async fn raw_output(&self, sandbox: &Sandbox, max_bytes: u64) -> Result<Bytes, SourceError>;
}

/// What one provider can do here.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderReport {
    /// Its name, as requests give it.
    pub name: String,
    /// Whether it can make sandboxes now.
    pub available: bool,
    /// What it enforces; none when that is not known or it cannot make a sandbox at all.
    pub isolation: Option<Isolation>,
    /// The most one sandbox can ever be given; none when that is not known.
    pub capacity: Option<Resources>,
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// The agents' programs that its sandboxes find; none when that cannot be seen from outside.
    pub agents: Option<Vec<AgentProgram>>,
}

/// An agent's program that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProgram {
    /// Whose.
    pub agent: &'static str,
    /// Its version, when it can be seen.
    pub version: Option<String>,
    /// Why it would not run in a sandbox.
    pub problem: Option<String>,
}

/// Tells what the providers can do. Asked at most every few seconds: the server remembers the answer.
#[async_trait]
pub trait ProviderReports: Send + Sync + std::fmt::Debug {
    /// One report for each provider.
    async fn report(&self) -> Vec<ProviderReport>;
}

/// Tells what a running sandbox uses.
#[async_trait]
pub trait LiveUsage: Send + Sync + std::fmt::Debug {
    /// What it uses now.
    async fn usage(&self, sandbox: &Sandbox) -> Result<ResourceUse, SourceError>;
}

/// Why a project's home did not do what another node asked of it.
#[derive(Debug, thiserror::Error)]
pub enum DutyError {
    /// Not now; asking again may help.
    #[error("{0}")]
    Passing(String),
    /// Not at all; the words are for whoever looks at the sandbox.
    #[error("{0}")]
    Refused(String),
}

/// What a node does for the projects whose mirrors it has.
#[async_trait]
pub trait HomeDuties: Send + Sync + std::fmt::Debug {
    /// Refreshes the mirror and makes or finds the branch that a sandbox works on.
    async fn lay_ground(&self, sandbox: &SandboxId) -> Result<Ground, DutyError>;
    /// Publishes what a sandbox left in the mirror.
    async fn publish(&self, sandbox: &SandboxId) -> Result<Published, DutyError>;
}

/// Tells how the connection to other programs' subscribers fares.
pub trait BusReport: Send + Sync + std::fmt::Debug {
    /// Names and figures, for people.
    fn report(&self) -> serde_json::Value;
}

/// A part that must be ready before the server is.
#[async_trait]
pub trait ReadyCheck: Send + Sync + std::fmt::Debug {
    /// What the part is called.
    fn name(&self) -> &'static str;
    /// Whether it is ready; the error says what is missing.
    async fn check(&self) -> Result<(), String>;
}
