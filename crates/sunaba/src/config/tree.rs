//! The typed tree that the parts of the program are given their piece of.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use secrecy::SecretString;
use sunaba_types::Resources;

/// Whether callers must show a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthMode {
    /// Every route but health and sign-in needs one.
    Required,
    /// None does; only on loopback.
    Off,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Pretty,
}

/// Which database holds everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Database {
    /// A file in the data directory.
    InDataDir,
    /// A file somewhere else.
    File(PathBuf),
}

/// Logging.
#[derive(Debug, Clone)]
pub(crate) struct LogConfig {
    /// How lines look.
    pub(crate) format: LogFormat,
    /// What is logged: a level, or directives such as `info,sunaba_server=debug`.
    pub(crate) level: String,
}

/// What a sandbox gets unless a call says otherwise.
#[derive(Debug, Clone)]
pub(crate) struct SandboxConfig {
    /// What makes it.
    pub(crate) provider: String,
    /// Which agent drives it.
    pub(crate) runtime: String,
    /// Which model it speaks to; none means the scripted one without a key.
    pub(crate) model: Option<String>,
    /// What it may use.
    pub(crate) resources: Resources,
    /// The worker program that is bound into local sandboxes; none means beside this program.
    pub(crate) worker_program: Option<PathBuf>,
}

/// The model provider behind the gateway.
#[derive(Debug, Clone)]
pub(crate) struct AnthropicConfig {
    /// The key; it never leaves the gateway.
    pub(crate) api_key: Option<SecretString>,
    /// Where requests go.
    pub(crate) base_url: String,
}

/// What this process does.
#[derive(Debug, Clone)]
pub(crate) struct OrchestratorConfig {
    /// Whether it starts sandboxes and looks after them.
    pub(crate) enabled: bool,
    /// How many sandboxes may live on this machine.
    pub(crate) max_sandboxes: u32,
    /// Most turns an agent may take.
    pub(crate) max_turns: u32,
    /// Seconds between a worker's heartbeats.
    pub(crate) heartbeat_seconds: u32,
}

/// The whole configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// Where everything is kept.
    pub(crate) data_dir: PathBuf,
    /// The address under which others reach the server.
    pub(crate) public_url: Option<String>,
    /// Which database.
    pub(crate) database: Database,
    /// Whether callers must show a token.
    pub(crate) auth: AuthMode,
    /// Whether an unknown sandbox may register itself by its first event.
    pub(crate) auto_register_sandboxes: bool,
    /// Logging.
    pub(crate) log: LogConfig,
    /// Sandboxes.
    pub(crate) sandbox: SandboxConfig,
    /// The model provider.
    pub(crate) anthropic: AnthropicConfig,
    /// What this process does.
    pub(crate) orchestrator: OrchestratorConfig,
}

impl Config {
    /// A tree to be filled: every key with a default is set from the table of keys.
    pub(super) fn unset() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data_dir: PathBuf::new(),
            public_url: None,
            database: Database::InDataDir,
            auth: AuthMode::Required,
            auto_register_sandboxes: false,
            log: LogConfig { format: LogFormat::Pretty, level: String::new() },
            sandbox: SandboxConfig {
                provider: String::new(),
                runtime: String::new(),
                model: None,
                resources: Resources::default(),
                worker_program: None,
            },
            anthropic: AnthropicConfig { api_key: None, base_url: String::new() },
            orchestrator: OrchestratorConfig {
                enabled: true,
                max_sandboxes: 0,
                max_turns: 0,
                heartbeat_seconds: 0,
            },
        }
    }

    /// The file of the embedded store.
    pub(crate) fn database_file(&self) -> PathBuf {
        match &self.database {
            Database::InDataDir => self.data_dir.join("sunaba.db"),
            Database::File(path) => path.clone(),
        }
    }

    /// The model a sandbox speaks to when nobody names one.
    pub(crate) fn default_model(&self) -> String {
        match (&self.sandbox.model, &self.anthropic.api_key) {
            (Some(model), _) => model.clone(),
            (None, Some(_)) => "claude-sonnet-4-5".to_owned(),
            (None, None) => "script:default".to_owned(),
        }
    }
}
