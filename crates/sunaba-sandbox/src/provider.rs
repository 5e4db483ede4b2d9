//! The provider port: what the orchestrator asks of whatever makes sandboxes.
//!
//! Every call may be repeated: the caller writes the sandbox's id down before it
//! asks, and after a crash simply asks again.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_types::shim::{Bind, Exit, Layer, Limits, ResourceUse};
use sunaba_types::{Finding, Isolation, SandboxId};

/// What is made before anything runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateRequest {
    /// What it may use, from its first moment to its last.
    pub limits: Limits,
    /// The container image, where there are images; the provider's own default without one.
    pub image: Option<String>,
}

/// A sandbox's places, before anything runs in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// It shares this host's file system.
    Here(HostPlaces),
    /// It is on another machine: its worker clones for itself, through the tunnel.
    Elsewhere,
}

impl Prepared {
    /// The places on this host, if it has any.
    pub fn here(self) -> Option<HostPlaces> {
        match self {
            Self::Here(places) => Some(places),
            Self::Elsewhere => None,
        }
    }
}

/// A sandbox's places on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlaces {
    /// The directory that appears as `/workspace` inside.
    pub workspace: PathBuf,
    /// The directory that appears as `/run/sunaba` inside; the server listens in it on
    /// `gateway.sock` and `egress.sock`, which must be writable for `owner_uid` (mode 0666 is enough:
    /// nobody else can enter the directory above).
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
    /// Read-only trees laid under the workspace and the home.
    pub layers: Vec<Layer>,
    /// A directory that is the root file system instead of the host's `/usr`.
    pub root_fs: Option<String>,
    /// The program and its arguments; empty means the worker.
    pub command: Vec<String>,
}

impl fmt::Debug for StartRequest {
    /// Names the variables only: their values hold the sandbox's token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartRequest")
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("binds", &self.binds)
            .field("layers", &self.layers)
            .field("root_fs", &self.root_fs)
            .field("command", &self.command)
            .finish()
    }
}

/// One more process in a running sandbox.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables besides those the sandbox was started with.
    pub env: BTreeMap<String, String>,
    /// What it reads from its standard input.
    pub input: Vec<u8>,
    /// After this it is killed, with everything it started.
    pub timeout: Duration,
    /// How much of each of its outputs is kept, in bytes; the rest is read and dropped.
    pub output_max: usize,
}

impl fmt::Debug for ExecRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecRequest").field("command", &self.command).finish_non_exhaustive()
    }
}

/// How one more process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecResult {
    /// The exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal, when one ended it.
    pub signal: Option<i32>,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// Whether more was written than was kept.
    pub truncated: bool,
}

/// Where a sandbox is, as its provider sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// There is no such sandbox.
    Absent,
    /// Its places are there, nothing was started or it is just starting.
    Prepared,
    /// It runs.
    Running,
    /// It is over.
    Exited(Exit),
    /// It ran and whoever held it vanished without a record.
    Lost,
}

/// What a provider can do on this host and what it is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What it enforces; none when it cannot make a sandbox at all.
    pub isolation: Option<Isolation>,
    /// What was looked at.
    pub findings: Vec<Finding>,
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
    /// A path that is none of the sandbox's own; says why.
    #[error("{path}: {reason}")]
    BadPath {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More was asked for than this host has or keeps back; says what to do.
    #[error("{0}")]
    Refused(String),
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

    /// Fetches what such a sandbox is made from, where that can take long: the rest is done within a deadline.
    async fn fetch(&self, _request: &CreateRequest) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the sandbox's places, or finds them: the id is its name, and asked again for the same id it
    /// gives the same places. Nothing runs yet.
    async fn create(&self, id: &SandboxId, request: &CreateRequest) -> Result<Prepared, Error>;

    /// The places of a sandbox that was created, also by an earlier server process.
    async fn find(&self, id: &SandboxId) -> Result<Option<Prepared>, Error>;

    /// Starts it. Already running: does nothing.
    async fn start(&self, id: &SandboxId, request: StartRequest) -> Result<(), Error>;

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

    /// Every sandbox of this server that has something here.
    async fn list(&self) -> Result<Vec<SandboxId>, Error>;

    /// What the sandbox wrote to its standard output and error, from `offset`, at most `limit` bytes.
    async fn output(&self, id: &SandboxId, offset: u64, limit: usize) -> Result<Vec<u8>, Error>;

    /// Runs one more process in a running sandbox, as its user and under its limits.
    async fn exec(&self, id: &SandboxId, request: ExecRequest) -> Result<ExecResult, Error>;

    /// Writes a file of the sandbox's user; `path` is absolute and lies in the workspace or the home inside. A
    /// link inside never leads outside.
    async fn write_file(&self, id: &SandboxId, path: &str, content: &[u8], mode: u32) -> Result<(), Error>;

    /// Reads a file, at most `limit` bytes of it; the same paths as for writing.
    async fn read_file(&self, id: &SandboxId, path: &str, limit: usize) -> Result<Vec<u8>, Error>;

    /// What a running sandbox uses.
    async fn usage(&self, id: &SandboxId) -> Result<ResourceUse, Error>;

    /// What this host enforces. An error says what is missing and what to do.
    async fn isolation(&self) -> Result<Isolation, Error>;

    /// Everything that was looked at, for people. Looks anew each time.
    async fn report(&self) -> Report;

    /// For an orderly end of the server: takes back what is there for all sandboxes together, unless one needs
    /// it. Nothing more is asked of this provider afterwards.
    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}
