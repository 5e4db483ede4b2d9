//! The provider port: what the orchestrator asks of whatever makes sandboxes.
//!
//! Every call may be repeated: the caller writes the sandbox's id down before it
//! asks, and after a crash simply asks again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use sunaba_types::SandboxId;
use sunaba_types::shim::{Bind, Exit, Held};

/// A sandbox's places on the host, before anything runs in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The directory that appears as `/workspace` inside.
    pub workspace: PathBuf,
    /// The directory that appears as `/run/sunaba` inside; the server listens in it on
    /// `gateway.sock`, which must be writable for `owner_uid` (its mode 0666 is enough: nobody
    /// else can enter the directory above).
    pub door_dir: PathBuf,
    /// The host user that must own every file in the workspace; `None` when the server is an ordinary user and owns it itself.
    pub owner_uid: Option<u32>,
}

/// What to run.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StartRequest {
    /// The environment inside; nothing else is passed on.
    pub env: BTreeMap<String, String>,
    /// Host paths shown inside, besides the system, the workspace, the home and the door.
    pub binds: Vec<Bind>,
    /// The program and its arguments; empty means the worker.
    pub command: Vec<String>,
}

impl fmt::Debug for StartRequest {
    /// Names the variables only: their values hold the sandbox's token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartRequest")
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("binds", &self.binds)
            .field("command", &self.command)
            .finish()
    }
}

/// Where a sandbox is, as its provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// There is no such sandbox.
    Absent,
    /// Its directory is there, nothing was started or it is just starting.
    Prepared,
    /// It runs.
    Running(Held),
    /// It is over.
    Exited(Exit),
    /// It ran and whoever held it vanished without a record.
    Lost,
}

/// What this host can enforce, as probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Isolation {
    /// In one short word or two, recorded on each run.
    pub level: String,
    /// Own user, mount, pid, ipc, host-name namespaces.
    pub namespaces: bool,
    /// Whether each sandbox has a host user of its own.
    pub own_uid: bool,
    /// Whether the network inside is loopback only.
    pub network_closed: bool,
    /// Whether memory, processor and process counts are limited by the kernel.
    pub resource_limits: bool,
}

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox is not known here.
    #[error("sandbox {0} does not exist here")]
    NotFound(SandboxId),
    /// The sandbox has run already; a new attempt needs a new sandbox.
    #[error("sandbox {0} has already run and ended")]
    AlreadyEnded(SandboxId),
    /// Nothing was started in it.
    #[error("sandbox {0} was not started")]
    NotStarted(SandboxId),
    /// It ran and whoever held it vanished without a record of the end.
    #[error("sandbox {0} is lost: its shim vanished without a record of the exit")]
    Lost(SandboxId),
    /// It could not be started.
    #[error("sandbox {id} did not start: {reason}")]
    StartFailed {
        /// Which.
        id: SandboxId,
        /// What went wrong.
        reason: String,
    },
    /// Something did not answer in time.
    #[error("sandbox {id}: {what} took longer than {seconds} s")]
    Timeout {
        /// Which.
        id: SandboxId,
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
    /// This host cannot isolate; says what to do.
    #[error("{0}")]
    Unsupported(String),
    /// Every host user of the range is in use.
    #[error("every sandbox uid from {} to {} is in use; delete ended sandboxes", crate::UID_RANGE.start(), crate::UID_RANGE.end())]
    NoUidLeft,
    /// The machinery below.
    #[error("{what}")]
    Backend {
        /// What was being done.
        what: String,
        /// Why it could not be.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Wraps what went wrong below, naming what was being done.
    pub(crate) fn backend(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Backend { what, source: Box::new(source) }
    }
}

/// Makes sandboxes.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// The provider's name in sandbox rows.
    fn name(&self) -> &'static str;

    /// Makes, or finds, the sandbox's directories. Nothing runs yet.
    async fn prepare(&self, id: &SandboxId) -> Result<Prepared, Error>;

    /// Starts it. Already running: answers who holds it.
    async fn start(&self, id: &SandboxId, request: StartRequest) -> Result<Held, Error>;

    /// Where it is.
    async fn status(&self, id: &SandboxId) -> Result<Status, Error>;

    /// Answers once it is over, also for a sandbox that another server process started.
    async fn wait(&self, id: &SandboxId) -> Result<Exit, Error>;

    /// Asks the command inside to end by itself. Not running: does nothing.
    async fn terminate(&self, id: &SandboxId) -> Result<(), Error>;

    /// Ends every process of it and answers once none is left.
    async fn kill(&self, id: &SandboxId) -> Result<(), Error>;

    /// Kills what lives and removes everything but the output, which is kept in the log directory.
    async fn delete(&self, id: &SandboxId) -> Result<(), Error>;

    /// Every sandbox that has something here.
    async fn list(&self) -> Result<Vec<SandboxId>, Error>;

    /// What the sandbox wrote to its standard output and error, from `offset`, at most `limit` bytes.
    async fn output(&self, id: &SandboxId, offset: u64, limit: usize) -> Result<Vec<u8>, Error>;

    /// What this host enforces. An error says what is missing and what to do.
    async fn isolation(&self) -> Result<Isolation, Error>;
}
