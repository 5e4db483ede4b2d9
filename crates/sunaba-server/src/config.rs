//! What can be set about the server, as plain data. Defaults are for one machine.

use std::path::PathBuf;
use std::time::Duration;

use sunaba_types::agents;

/// Runtimes that a request may name; besides them, `acp:` and the command line of an agent.
pub const RUNTIMES: [&str; agents::NAMES.len()] = agents::NAMES;
/// Of a command line that a request names.
const COMMAND_LINE_MAX_CHARS: usize = 500;

/// Whether this is one of these runtimes, or the command line of an agent.
pub fn is_runtime(known: &[impl AsRef<str>], name: &str) -> bool {
    let is_line = |line: &str| {
        !line.trim().is_empty()
            && line.chars().count() <= COMMAND_LINE_MAX_CHARS
            && !line.chars().any(char::is_control)
    };
    known.iter().any(|known| known.as_ref() == name) || name.strip_prefix("acp:").is_some_and(is_line)
}

/// What is said of a runtime that is none.
pub fn runtime_choices(known: &[impl AsRef<str>]) -> String {
    let names: Vec<_> = known.iter().map(AsRef::as_ref).collect();
    format!("must be one of {}, or acp: and a command line", names.join(", "))
}

/// Whether callers must prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// Everything but health needs a token.
    #[default]
    Required,
    /// Everyone is admin. Only for a loopback address; requests through a
    /// sandbox's door need that sandbox's token all the same.
    Off,
}

/// How much one token may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests a second, for one token.
    pub requests_per_second: u32,
    /// Events a second, for one token. Never below [`Limits::EVENTS_FLOOR`].
    pub events_per_second: u32,
    /// How long an ordinary request may take.
    pub request_timeout: Duration,
    /// How long the body of a request may pause.
    pub body_timeout: Duration,
    /// How many bytes of request bodies are in memory at once, of all callers together.
    pub body_bytes: usize,
}

impl Limits {
    /// No worker is ever held below this many events a second.
    pub const EVENTS_FLOOR: u32 = 2_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_second: 20_000,
            events_per_second: 50_000,
            request_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            body_bytes: 256 * 1024 * 1024,
        }
    }
}

/// How much may be kept on the server's disk.
#[derive(Debug, Clone, Copy)]
pub struct RoomLimits {
    /// With less free disk than this no blob is taken.
    pub disk_free_bytes: u64,
    /// How often over a sandbox's blobs may fill as much as its own disk holds.
    pub blob_disks: f64,
    /// How many bytes of events one sandbox may write.
    pub log_bytes: u64,
}

impl Default for RoomLimits {
    fn default() -> Self {
        Self { disk_free_bytes: 0, blob_disks: 2.0, log_bytes: 4 << 30 }
    }
}

/// Bounds of the live streams.
#[derive(Debug, Clone, Copy)]
pub struct LiveLimits {
    /// How often the feed is read without a hint.
    pub poll_every: Duration,
    /// How many entries are kept in memory for subscribers.
    pub ring_entries: usize,
    /// How many bytes of frames are kept in memory.
    pub ring_bytes: usize,
    /// How long a send may be blocked by a reader that does not read.
    pub send_timeout: Duration,
    /// How long a cut reader may take to read the overflow frame.
    pub cut_grace: Duration,
    /// Silence after which a ping is sent.
    pub ping_every: Duration,
    /// How long a WebSocket may take to show its token in the first frame.
    pub auth_timeout: Duration,
    /// How often a live stream asks whether its token still opens it.
    pub recheck_every: Duration,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            poll_every: Duration::from_millis(250),
            ring_entries: 8192,
            ring_bytes: 64 * 1024 * 1024,
            send_timeout: Duration::from_secs(10),
            cut_grace: Duration::from_secs(10),
            ping_every: Duration::from_secs(30),
            auth_timeout: Duration::from_secs(10),
            recheck_every: Duration::from_secs(5),
        }
    }
}

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Whether tokens are needed.
    pub auth: AuthMode,
    /// Whether people and programs are answered here. Sandboxes and health always are.
    pub serves_api: bool,
    /// Whether a personal token for all projects may register an `external` sandbox by its first event.
    pub auto_register_sandboxes: bool,
    /// The provider of sandboxes whose request names none.
    pub default_provider: String,
    /// Providers that a request may name.
    pub providers: Vec<String>,
    /// The runtime when neither request nor project names one.
    pub default_runtime: String,
    /// Runtimes that a request may name.
    pub runtimes: Vec<String>,
    /// The model when neither request nor project names one.
    pub default_model: String,
    /// What a sandbox may use when its request does not say.
    pub default_resources: sunaba_types::Resources,
    /// The least isolation a sandbox accepts when neither request nor project says.
    pub default_isolation: sunaba_types::IsolationWanted,
    /// What a task may spend on models when neither request nor project says; none means no bound.
    pub default_budget_usd: Option<f64>,
    /// How long a sandbox may run when its request does not say; none means no bound.
    pub default_timeout_seconds: Option<i64>,
    /// How agents work when neither request nor task nor project says.
    pub default_execution_config: sunaba_types::ExecutionConfig,
    /// Directories that no sandbox may be shown any part of (the data directory).
    pub protected_paths: Vec<PathBuf>,
    /// How much one token may ask for.
    pub limits: Limits,
    /// How much may be kept on the server's disk.
    pub room: RoomLimits,
    /// Bounds of the live streams.
    pub live: LiveLimits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            auth: AuthMode::Required,
            serves_api: true,
            auto_register_sandboxes: false,
            default_provider: "local".to_owned(),
            providers: vec!["local".to_owned()],
            default_runtime: "native".to_owned(),
            runtimes: RUNTIMES.map(str::to_owned).to_vec(),
            default_model: "script:default".to_owned(),
            default_resources: sunaba_types::Resources::default(),
            default_isolation: sunaba_types::IsolationWanted::Sampled,
            default_budget_usd: None,
            default_timeout_seconds: None,
            default_execution_config: sunaba_types::ExecutionConfig::default(),
            protected_paths: Vec::new(),
            limits: Limits::default(),
            room: RoomLimits::default(),
            live: LiveLimits::default(),
        }
    }
}
