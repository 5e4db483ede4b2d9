//! The typed tree that the parts of the program are given their piece of.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use secrecy::SecretString;
use sunaba_types::{EgressPreset, IsolationWanted, PermissionMode, QuestionPolicy, Resources};

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
#[derive(Debug, Clone)]
pub(crate) enum Database {
    /// A file in the data directory.
    InDataDir,
    /// A file somewhere else.
    File(PathBuf),
    /// PostgreSQL at this address, which may hold a password.
    Postgres(SecretString),
}

/// What this process does for the others that share its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Whether it answers people and programs; its own sandboxes are always answered.
    pub(crate) api: bool,
    /// Whether it starts sandboxes and looks after them.
    pub(crate) orchestrator: bool,
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.api, self.orchestrator) {
            (true, true) => "api,orchestrator",
            (true, false) => "api",
            (false, true) => "orchestrator",
            (false, false) => "none",
        })
    }
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
    /// Its processes and threads.
    pub(crate) pids: u32,
    /// The least isolation it accepts.
    pub(crate) isolation: IsolationWanted,
    /// What its task may spend on models; none means no bound.
    pub(crate) budget_usd: Option<f64>,
    /// How long it may run; none means no bound.
    pub(crate) timeout_seconds: Option<i64>,
    /// What its agent may do without being allowed to.
    pub(crate) permission_mode: PermissionMode,
    /// The image of container sandboxes.
    pub(crate) image: String,
    /// The root file system of local sandboxes; none means this host's `/usr`.
    pub(crate) root_fs: Option<PathBuf>,
    /// The worker program that is bound into local sandboxes; none means beside this program.
    pub(crate) worker_program: Option<PathBuf>,
}

/// What agents ask people.
#[derive(Debug, Clone)]
pub(crate) struct QuestionsConfig {
    /// How long a question waits.
    pub(crate) hold_minutes: f64,
    /// What becomes of one that nobody answered in time.
    pub(crate) policy: QuestionPolicy,
}

/// What sandboxes may reach.
#[derive(Debug, Clone)]
pub(crate) struct EgressConfig {
    /// What those of a project that has not decided may.
    pub(crate) default: EgressPreset,
    /// What may be reached although its addresses are not public.
    pub(crate) private_hosts: Vec<String>,
}

/// The container daemon.
#[derive(Debug, Clone)]
pub(crate) struct DockerConfig {
    /// Where it listens.
    pub(crate) host: String,
    /// Whether it is on another machine.
    pub(crate) remote: bool,
    /// The network of containers on another machine; none means the daemon's default.
    pub(crate) network: Option<String>,
    /// Whether somebody named it.
    pub(crate) named: bool,
}

/// What seals projects' secrets.
#[derive(Debug, Clone)]
pub(crate) struct SecretsConfig {
    /// The key itself.
    pub(crate) key: Option<SecretString>,
    /// A file that holds it.
    pub(crate) key_file: Option<PathBuf>,
}

/// A model provider behind the gateway.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    /// The key; it never leaves the gateway.
    pub(crate) api_key: Option<SecretString>,
    /// Where requests go.
    pub(crate) base_url: String,
}

/// How sandboxes are looked after.
#[derive(Debug, Clone)]
pub(crate) struct OrchestratorConfig {
    /// `false` takes the role of that name away; [`Config::roles`] is what counts.
    pub(crate) enabled: bool,
    /// How many sandboxes may live on this machine.
    pub(crate) max_sandboxes: u32,
    /// With less free disk, in GiB, none is started.
    pub(crate) disk_free_gb: f64,
    /// Most turns an agent may take.
    pub(crate) max_turns: u32,
    /// How long a sandbox whose agent is done waits for somebody to say more.
    pub(crate) follow_up_minutes: f64,
    /// Seconds between a worker's heartbeats.
    pub(crate) heartbeat_seconds: u32,
    /// After how many minutes of silence a worker that does not heartbeat continuously is no longer taken to live.
    pub(crate) legacy_silence_minutes: u32,
    /// After how many minutes of silence another server is given up.
    pub(crate) node_lost_minutes: u32,
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
    /// The private certificate authority of that address, in PEM.
    pub(crate) public_url_ca: Option<String>,
    /// Which database.
    pub(crate) database: Database,
    /// Where Redis is, for hints between servers.
    pub(crate) redis_url: Option<SecretString>,
    /// What this process does.
    pub(crate) roles: Roles,
    /// How the other servers of the same database reach this one; none means at its listening address.
    pub(crate) node_address: Option<String>,
    /// Whether callers must show a token.
    pub(crate) auth: AuthMode,
    /// Whether an unknown sandbox may register itself by its first event.
    pub(crate) auto_register_sandboxes: bool,
    /// Logging.
    pub(crate) log: LogConfig,
    /// Sandboxes.
    pub(crate) sandbox: SandboxConfig,
    /// What agents ask people.
    pub(crate) questions: QuestionsConfig,
    /// Anthropic's models.
    pub(crate) anthropic: ModelConfig,
    /// OpenAI's models.
    pub(crate) openai: ModelConfig,
    /// Google's models.
    pub(crate) google: ModelConfig,
    /// The longest that a task waits for vendors' limits, in hours.
    pub(crate) quota_wait_hours: f64,
    /// A file with prices of models.
    pub(crate) prices: Option<PathBuf>,
    /// What sandboxes may reach.
    pub(crate) egress: EgressConfig,
    /// The container daemon.
    pub(crate) docker: DockerConfig,
    /// What seals projects' secrets.
    pub(crate) secrets: SecretsConfig,
    /// How sandboxes are looked after.
    pub(crate) orchestrator: OrchestratorConfig,
}

impl Config {
    /// A tree to be filled: every key with a default is set from the table of keys.
    pub(super) fn unset() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data_dir: PathBuf::new(),
            public_url: None,
            public_url_ca: None,
            database: Database::InDataDir,
            redis_url: None,
            roles: Roles { api: true, orchestrator: true },
            node_address: None,
            auth: AuthMode::Required,
            auto_register_sandboxes: false,
            log: LogConfig { format: LogFormat::Pretty, level: String::new() },
            sandbox: SandboxConfig {
                provider: String::new(),
                runtime: String::new(),
                model: None,
                resources: Resources::default(),
                pids: 0,
                isolation: IsolationWanted::Strict,
                budget_usd: None,
                timeout_seconds: None,
                permission_mode: PermissionMode::Bypass,
                image: String::new(),
                root_fs: None,
                worker_program: None,
            },
            questions: QuestionsConfig { hold_minutes: 0.0, policy: QuestionPolicy::Suspend },
            anthropic: ModelConfig { api_key: None, base_url: String::new() },
            openai: ModelConfig { api_key: None, base_url: String::new() },
            google: ModelConfig { api_key: None, base_url: String::new() },
            quota_wait_hours: 0.0,
            prices: None,
            egress: EgressConfig { default: EgressPreset::None, private_hosts: Vec::new() },
            docker: DockerConfig { host: String::new(), remote: false, network: None, named: false },
            secrets: SecretsConfig { key: None, key_file: None },
            orchestrator: OrchestratorConfig {
                enabled: true,
                max_sandboxes: 0,
                disk_free_gb: 0.0,
                max_turns: 0,
                follow_up_minutes: 0.0,
                heartbeat_seconds: 0,
                legacy_silence_minutes: 0,
                node_lost_minutes: 0,
            },
        }
    }

    /// Whether containers are a choice.
    pub(crate) fn has_docker(&self) -> bool {
        self.docker.named || self.sandbox.provider == "docker"
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
