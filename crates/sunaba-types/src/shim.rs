//! What the server and a local sandbox's shim say to each other.
//!
//! The server writes [`Spec`] as `spec.json` into the sandbox's directory and
//! starts the shim there. The shim writes [`Held`] as `shim.json` once the
//! sandbox runs and [`Exit`] as `exit.json` once it is over, and answers
//! one-line JSON [`Request`]s on `control.sock` with one-line JSON [`Reply`]s.
//! A file is written under another name and renamed, so a reader sees all of it or nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Name of the file that tells the shim what to run.
pub const SPEC_FILE: &str = "spec.json";
/// Name of the file that tells who holds the sandbox.
pub const HELD_FILE: &str = "shim.json";
/// Name of the file that tells how it ended.
pub const EXIT_FILE: &str = "exit.json";
/// Name of the file that keeps what the sandbox wrote to its standard output and error.
pub const OUTPUT_FILE: &str = "out.log";
/// Name of the file that keeps what the shim itself had to say.
pub const SHIM_LOG_FILE: &str = "shim.log";
/// Name of the file that a living shim holds locked.
pub const LOCK_FILE: &str = "shim.lock";
/// Name of the directory that is the repository inside.
pub const WORKSPACE_DIR: &str = "workspace";
/// Name of the directory that is the home inside.
pub const HOME_DIR: &str = "home";
/// Name of the directory that is `/etc` inside.
pub const ETC_DIR: &str = "etc";
/// Name of the shim's control socket.
pub const CONTROL_SOCKET: &str = "control.sock";
/// Name of the directory that is bound into the sandbox and holds the server's socket.
pub const DOOR_DIR: &str = "door";
/// Name of the server's socket in that directory.
pub const DOOR_SOCKET: &str = "gateway.sock";
/// Where that directory appears inside.
pub const DOOR_DIR_INSIDE: &str = "/run/sunaba";
/// Where the repository appears inside.
pub const WORKSPACE_INSIDE: &str = "/workspace";
/// Where the home directory appears inside.
pub const HOME_INSIDE: &str = "/home/agent";
/// Where programs are looked for inside, after those of the toolchains.
pub const PATH_INSIDE: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
/// Where the worker program appears inside.
pub const WORKER_INSIDE: &str = "/opt/sunaba/sunaba-worker";
/// The bridge's address inside for the gateway and the worker's routes.
pub const BRIDGE_ADDRESS: &str = "127.0.0.1:3129";
/// The bridge's address inside for everything else: an HTTP proxy (CONNECT and plain).
pub const PROXY_ADDRESS: &str = "127.0.0.1:3128";
/// Name of the egress proxy's socket beside [`DOOR_SOCKET`].
pub const EGRESS_SOCKET: &str = "egress.sock";

/// Name of the file in a container's home that notes an exit code above 128, which otherwise means a signal.
pub const CODE_FILE: &str = ".sunaba-exit-code";

/// What a sandbox may use; what is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory of all its processes together, swap included, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processor time, in thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Everything it can write to on disk together (workspace, home), in bytes.
    pub disk_bytes: Option<u64>,
}

/// A directory tree that is laid under one that the sandbox writes to: the sandbox sees both and changes only its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The read-only tree on the host.
    pub source: String,
    /// Where it appears inside: [`WORKSPACE_INSIDE`] or [`HOME_INSIDE`].
    pub target: String,
}

/// What a sandbox uses now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceUse {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The most it ever was, in bytes.
    pub memory_peak_bytes: u64,
    /// Processor time so far, in milliseconds.
    pub cpu_ms: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Disk, in bytes.
    pub disk_bytes: u64,
}

/// A host path shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub source: String,
    /// Inside.
    pub target: String,
    /// Whether the sandbox may write to it.
    pub writable: bool,
}

/// Everything the shim needs to make the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The sandbox's id, also its host name.
    pub sandbox_id: String,
    /// The unprivileged host user it runs as when the server is root.
    pub host_uid: Option<u32>,
    /// Host paths shown inside, on top of `/usr` and the made `/etc`.
    pub binds: Vec<Bind>,
    /// The worker program on the host; bound at [`WORKER_INSIDE`].
    pub worker_program: String,
    /// The environment inside; nothing else is passed on.
    pub env: BTreeMap<String, String>,
    /// The program and arguments run inside, by the guest supervisor.
    pub command: Vec<String>,
    /// What it may use.
    #[serde(default)]
    pub limits: Limits,
    /// Trees laid under the workspace and the home.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// A directory on the host that is the root file system, read-only; none shows the host's `/usr`.
    #[serde(default)]
    pub root_fs: Option<String>,
    /// Whether system calls are filtered. Only a test that needs the unguarded sandbox says no.
    #[serde(default = "yes")]
    pub seccomp: bool,
}

const fn yes() -> bool {
    true
}

/// Who holds a running sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The shim's process id.
    pub shim_pid: i32,
    /// The shim's start time in clock ticks since boot: a pid alone may be reused.
    pub shim_start_time: u64,
    /// The sandbox's first process as the host sees it (pid-namespace init).
    pub init_pid: i32,
    /// That process's start time, for the same reason.
    #[serde(default)]
    pub init_start_time: u64,
    /// The inode of the sandbox's pid namespace: whatever lives in it belongs to the sandbox.
    #[serde(default)]
    pub pid_namespace: u64,
}

/// How a sandbox ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, when it ended by itself.
    pub code: Option<i32>,
    /// The signal, when one ended it.
    pub signal: Option<i32>,
    /// How many processes the kernel, or the shim that samples in its place, killed for want of memory.
    pub oom_kills: u64,
    /// Which limit the sandbox was ended for, when the shim had to do it: `memory`, `disk`, `pids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_for: Option<String>,
    /// Whether the shim was asked to kill it.
    pub killed_on_request: bool,
    /// What went wrong before anything ran.
    pub error: Option<String>,
}

/// Asked on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// Is it running?
    Status,
    /// Answer once it is over.
    Wait,
    /// End every process in it and answer once none is left.
    Kill,
    /// Ask the command inside to end by itself (SIGTERM); answers whether it runs.
    Terminate,
    /// What does it use?
    Usage,
    /// Start one more process; its standard input, output and error travel beside this line. Answers when it
    /// is over; a client that leaves before ends it.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables besides those of the sandbox.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// After this it is killed, with everything it started.
        timeout_ms: u64,
    },
}

/// Answered on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Reply {
    /// It runs.
    Running(Held),
    /// It is over.
    Exited(Exit),
    /// What it uses.
    Usage(ResourceUse),
    /// How one more process ended.
    ExecExited {
        /// The exit code, when it ended by itself.
        code: Option<i32>,
        /// The signal, when one ended it.
        signal: Option<i32>,
        /// Whether it was killed because its time was over.
        timed_out: bool,
    },
    /// The request could not be understood.
    Refused {
        /// Why.
        error: String,
    },
}
