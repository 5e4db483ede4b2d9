//! What the orchestrator is given by whoever composes the server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_nodes::Nodes;
use sunaba_sandbox::Provider;
use sunaba_store::Store;
use sunaba_types::chain::Hash;
use sunaba_types::{Clock, Egress, Sandbox, SandboxId};

use crate::home::Home;
use crate::setup::Shelf;

/// The ways between a sandbox and the server.
#[async_trait]
pub trait Doors: Send + Sync + std::fmt::Debug {
    /// Listens in `door_dir` for this sandbox; opening twice is harmless.
    async fn open(&self, id: &SandboxId, door_dir: &Path) -> std::io::Result<()>;
    /// Stops listening.
    async fn close(&self, id: &SandboxId);
    /// Whether a sandbox on another machine has its tunnel open.
    fn has_tunnel(&self, id: &SandboxId) -> bool;
    /// How often this server has heard a sandbox; from the first time that it is asked until the door is closed.
    fn signs(&self, id: &SandboxId) -> u64;
}

/// How the orchestrator behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory: its disk is the one that is watched.
    pub data_dir: PathBuf,
    /// Its folder of what setup commands made.
    pub layers_root: PathBuf,
    /// The address under which sandboxes on other machines reach the server.
    pub public_url: Option<String>,
    /// The private certificate authority of that address, in PEM; none means that every image trusts it.
    pub public_url_ca: Option<String>,
    /// What sandboxes of a project that has not decided may reach.
    pub default_egress: Egress,
    /// The root file system of local sandboxes whose project names none.
    pub root_fs: Option<String>,
    /// How many processes and threads a sandbox may have.
    pub pids: u32,
    /// Whether sandboxes that wait are taken up here; what this node holds is looked after in any case.
    pub takes_up: bool,
    /// How many sandboxes may be brought up at once.
    pub concurrent_starts: usize,
    /// How many setup commands may run at once.
    pub concurrent_setups: usize,
    /// How many sandboxes may live on this machine.
    pub max_sandboxes: usize,
    /// With less free disk than this no sandbox is started, in bytes.
    pub disk_free_bytes: u64,
    /// How long a sandbox may wait for its turn.
    pub pending_deadline: Duration,
    /// How long a sandbox may take from being asked for to its first event.
    pub creating_deadline: Duration,
    /// How long a finished agent's result may take to be recorded.
    pub completing_deadline: Duration,
    /// How long it is waited for a project's home, and for others that write to its mirror.
    pub git_patience: Duration,
    /// How long a setup command may take.
    pub setup_deadline: Duration,
    /// How long a sandbox that is asked to end may take.
    pub ending_grace: Duration,
    /// What setup commands made is removed after so long without use.
    pub layers_max_age: Duration,
    /// All of it together may take this much, in bytes; what was used longest ago goes first.
    pub layers_max_bytes: u64,
    /// Seconds between a worker's heartbeats.
    pub heartbeat_seconds: u64,
    /// Most turns an agent may take.
    pub max_turns: u32,
    /// How long a sandbox whose agent is done waits for somebody to say more.
    pub follow_up: Duration,
    /// How many sandboxes of a task may die in a row before the task fails.
    pub most_deaths: i64,
    /// A node that was silent for so long is given up, with the sandboxes it held.
    pub node_lost_after: Duration,
    /// How often a task may be tried when the nodes that tried it were lost.
    pub most_attempts: i64,
}

impl Settings {
    /// The defaults, with everything in `data_dir`.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            layers_root: data_dir.join("layers"),
            data_dir,
            public_url: None,
            public_url_ca: None,
            default_egress: Egress::default(),
            root_fs: None,
            pids: 4096,
            takes_up: true,
            concurrent_starts: 8,
            concurrent_setups: 2,
            max_sandboxes: 200,
            disk_free_bytes: 2 << 30,
            pending_deadline: Duration::from_secs(24 * 3600),
            creating_deadline: Duration::from_secs(120),
            completing_deadline: Duration::from_secs(120),
            git_patience: Duration::from_secs(15 * 60),
            setup_deadline: Duration::from_secs(15 * 60),
            ending_grace: Duration::from_secs(20),
            layers_max_age: Duration::from_secs(14 * 24 * 3600),
            layers_max_bytes: 32 << 30,
            heartbeat_seconds: 30,
            max_turns: 50,
            follow_up: Duration::ZERO,
            most_deaths: 3,
            node_lost_after: Duration::from_secs(15 * 60),
            most_attempts: 5,
        }
    }
}

/// Everything the orchestrator works with.
#[derive(Debug)]
pub struct Parts {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// What makes sandboxes, by name. Sandboxes of any other provider are left alone.
    pub providers: BTreeMap<String, Arc<dyn Provider>>,
    /// Their doors.
    pub doors: Arc<dyn Doors>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes a sandbox token and its hash.
    pub mint_token: fn() -> (String, Hash),
    /// How to behave.
    pub settings: Settings,
    /// This node, and what it knows of the others.
    pub nodes: Nodes,
    /// The mirrors of this node.
    pub home: Home,
    /// What setup commands made.
    pub shelf: Shelf,
}

impl Settings {
    /// How long this sandbox waits for somebody to say more when its agent is done.
    pub(crate) fn follow_up_of(&self, sandbox: &Sandbox) -> Duration {
        match sandbox.terms.follow_up_seconds {
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            None => self.follow_up,
        }
    }
}

impl Parts {
    /// What makes sandboxes under this name, if this process has it.
    pub(crate) fn provider(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.providers.get(name)
    }
}
