//! What the orchestrator is given by whoever composes the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_git::ProjectLocks;
use sunaba_sandbox::Provider;
use sunaba_store::Store;
use sunaba_types::chain::Hash;
use sunaba_types::{Clock, ProjectId, SandboxId};

/// Opens the one door of a sandbox: a socket in a directory that is bound into it.
#[async_trait]
pub trait Doors: Send + Sync + std::fmt::Debug {
    /// Listens in `door_dir`; opening twice is harmless.
    async fn open(&self, id: &SandboxId, door_dir: &Path) -> std::io::Result<()>;
    /// Stops listening.
    async fn close(&self, id: &SandboxId);
}

/// How the orchestrator behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory's folder of git mirrors.
    pub git_root: PathBuf,
    /// How many sandboxes may be brought up at once.
    pub concurrent_starts: usize,
    /// How many sandboxes may live on this machine.
    pub max_sandboxes: usize,
    /// How long a sandbox may take from being asked for to its first event.
    pub creating_deadline: Duration,
    /// How long a finished agent's result may take to be recorded.
    pub completing_deadline: Duration,
    /// Seconds between a worker's heartbeats.
    pub heartbeat_seconds: u64,
    /// Most turns an agent may take.
    pub max_turns: u32,
}

impl Settings {
    /// The defaults, with mirrors in `git_root`.
    pub fn new(git_root: PathBuf) -> Self {
        Self {
            git_root,
            concurrent_starts: 8,
            max_sandboxes: 200,
            creating_deadline: Duration::from_secs(120),
            completing_deadline: Duration::from_secs(120),
            heartbeat_seconds: 30,
            max_turns: 50,
        }
    }
}

/// Everything the orchestrator works with.
#[derive(Debug)]
pub struct Parts {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// What makes sandboxes.
    pub provider: Arc<dyn Provider>,
    /// Their doors.
    pub doors: Arc<dyn Doors>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes a sandbox token and its hash.
    pub mint_token: fn() -> (String, Hash),
    /// How to behave.
    pub settings: Settings,
    /// The git locks, shared with whatever else writes to mirrors.
    pub git_locks: Arc<ProjectLocks>,
}

impl Parts {
    /// Where a project's mirror is.
    pub(crate) fn mirror_path(&self, project: &ProjectId) -> PathBuf {
        self.settings.git_root.join(format!("{project}.git"))
    }
}
