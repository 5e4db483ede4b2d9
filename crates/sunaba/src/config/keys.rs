//! The table of keys: every setting once, with its names, its default and what it may be.

use secrecy::SecretString;
use sunaba_types::{EgressPreset, IsolationWanted, PermissionMode, QuestionPolicy};

use super::address::{database, redis};
use super::read::{
    amount, boolean, certificates, directives, directory, docker_host, docker_network, listed, not_blank,
    one_of, roles, set, socket, web_address, whole,
};
use super::tree::{AuthMode, Config, LogFormat};

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name in files; sections are joined by dots.
    pub(crate) name: &'static str,
    /// The environment variables that set it; the first one that is set wins.
    pub(crate) env: &'static [&'static str],
    /// The flag of `sunaba serve` that sets it.
    pub(crate) flag: Option<&'static str>,
    /// Its built-in value.
    pub(crate) default: Option<&'static str>,
    /// How much of it may be shown.
    pub(crate) shown: Shown,
    /// What it does.
    pub(crate) help: &'static str,
    /// Reads the text into the tree; the error completes the sentence "VALUE …".
    pub(crate) apply: fn(&mut Config, &str) -> Result<(), String>,
}

/// How much of a value may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All of it.
    Whole,
    /// All but the password in an address.
    WithoutPassword,
    /// Only that it is set.
    Never,
}

/// A key that is not secret and has no flag.
const PLAIN: Key = Key {
    name: "",
    env: &[],
    flag: None,
    default: None,
    shown: Shown::Whole,
    help: "",
    apply: |_, _| Ok(()),
};

/// Every key, in the order they are shown.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        env: &["SUNABA_LISTEN"],
        flag: Some("listen"),
        default: Some("127.0.0.1:18000"),
        help: "Address and port the server listens on; port 0 takes a free one.",
        apply: |config, text| set(&mut config.listen, socket(text)),
        ..PLAIN
    },
    Key {
        name: "data_dir",
        env: &["SUNABA_DATA"],
        flag: Some("data"),
        help: "Directory that holds everything: database, blobs, mirrors, sandboxes, the admin token. Default: `$XDG_DATA_HOME/sunaba` or `~/.local/share/sunaba`.",
        apply: |config, text| set(&mut config.data_dir, directory(text)),
        ..PLAIN
    },
    Key {
        name: "public_url",
        env: &["SUNABA_PUBLIC_URL"],
        flag: Some("public-url"),
        help: "Address under which people reach the server, when it is not the one it listens on.",
        apply: |config, text| set(&mut config.public_url, web_address(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "public_url_ca",
        env: &["SUNABA_PUBLIC_URL_CA"],
        help: "A file with the certificate authority (PEM) of that address, where it is a private one: sandboxes on other machines trust it for their tunnel, whatever their image trusts. Read at the start.",
        apply: |config, text| set(&mut config.public_url_ca, certificates(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "database_url",
        env: &["DATABASE_URL"],
        flag: Some("database-url"),
        shown: Shown::WithoutPassword,
        help: "`postgres://USER:PASSWORD@HOST/DATABASE` (or `postgresql://…`), or `sqlite:FILE`. Default: SQLite, `sunaba.db` in the data directory. PostgreSQL needs `secrets.key` or `secrets.key_file`. An address with a password belongs in the environment or in a file: a flag is in the list of processes.",
        apply: |config, text| set(&mut config.database, database(text)),
        ..PLAIN
    },
    Key {
        name: "redis_url",
        env: &["REDIS_URL"],
        flag: Some("redis-url"),
        shown: Shown::WithoutPassword,
        help: "`redis://HOST:PORT`, or `rediss://HOST:PORT` for TLS (its certificate must be one that this machine trusts; `SSL_CERT_FILE` names an authority of your own), for programs outside, which find every event on the channel `events.NAME`, and for wake-ups between servers that share a database. A Redis that is away costs a moment and nothing else.",
        apply: |config, text| set(&mut config.redis_url, redis(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "roles",
        env: &["SUNABA_ROLES"],
        flag: Some("roles"),
        default: Some("api,orchestrator"),
        help: "What this process does, with a comma between: `api` answers people and programs (without it they get 503 `role_not_here`; sandboxes and health are always answered), `orchestrator` starts sandboxes (without it what this server began earlier is still looked after).",
        apply: |config, text| set(&mut config.roles, roles(text)),
        ..PLAIN
    },
    Key {
        name: "node_address",
        env: &["SUNABA_NODE_ADDRESS"],
        flag: Some("node-address"),
        help: "Address under which other servers of the same database reach this one. Default: `http://` and the address it listens on.",
        apply: |config, text| set(&mut config.node_address, web_address(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "auth",
        env: &["SUNABA_AUTH"],
        flag: Some("auth"),
        default: Some("required"),
        help: "`required`, or `off` (only on a loopback address; then the first event registers an external sandbox).",
        apply: |config, text| {
            set(&mut config.auth, one_of(text, &[("required", AuthMode::Required), ("off", AuthMode::Off)]))
        },
        ..PLAIN
    },
    Key {
        name: "auto_register_sandboxes",
        env: &["AUTO_REGISTER_SANDBOXES"],
        default: Some("false"),
        help: "Whether a personal token may register an external sandbox by its first event (the admin token always may).",
        apply: |config, text| set(&mut config.auto_register_sandboxes, boolean(text)),
        ..PLAIN
    },
    Key {
        name: "log.format",
        env: &["SUNABA_LOG_FORMAT"],
        flag: Some("log-format"),
        default: Some("pretty"),
        help: "`pretty` or `json`; log lines go to standard error.",
        apply: |config, text| {
            set(
                &mut config.log.format,
                one_of(text, &[("pretty", LogFormat::Pretty), ("json", LogFormat::Json)]),
            )
        },
        ..PLAIN
    },
    Key {
        name: "log.level",
        env: &["SUNABA_LOG"],
        flag: Some("log-level"),
        default: Some("info"),
        help: "`error`, `warn`, `info`, `debug`, `trace`, or directives such as `info,sunaba_server=debug`.",
        apply: |config, text| set(&mut config.log.level, directives(text)),
        ..PLAIN
    },
    Key {
        name: "sandbox.provider",
        env: &["SANDBOX_PROVIDER"],
        default: Some("local"),
        help: "What makes sandboxes: `local`, `docker`, or `external` for ones that somebody else runs.",
        apply: |config, text| {
            let choices = ["local", "docker", "external"].map(|name| (name, name.to_owned()));
            set(&mut config.sandbox.provider, one_of(text, &choices))
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.runtime",
        env: &["SANDBOX_RUNTIME"],
        default: Some("native"),
        help: "Which agent drives a sandbox: `native`, `claude`, `codex`, `opencode`, `claude-acp`, `gemini`, `openhands`, or `acp:` and a command line. All but the first have to be installed where sandboxes see them.",
        apply: |config, text| {
            let choices = sunaba_server::RUNTIMES.map(|name| (name, name.to_owned()));
            let is_runtime = sunaba_server::is_runtime(&sunaba_server::RUNTIMES, text);
            let read = if is_runtime { Ok(text.to_owned()) } else { one_of(text, &choices) };
            set(&mut config.sandbox.runtime, read)
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.model",
        env: &["SUNABA_MODEL", "ANTHROPIC_MODEL"],
        help: "Model of a sandbox when a call names none. Default: `claude-sonnet-4-5` with a key, `script:default` without one.",
        apply: |config, text| set(&mut config.sandbox.model, not_blank(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "sandbox.memory_gb",
        env: &["SANDBOX_MEMORY_GB"],
        default: Some("4"),
        help: "Memory of a sandbox, in GiB.",
        apply: |config, text| set(&mut config.sandbox.resources.memory_gb, amount(text, 0.1, 4096.0)),
        ..PLAIN
    },
    Key {
        name: "sandbox.cpu",
        env: &["SANDBOX_CPU"],
        default: Some("2"),
        help: "Processor cores of a sandbox.",
        apply: |config, text| set(&mut config.sandbox.resources.cpu, amount(text, 0.1, 1024.0)),
        ..PLAIN
    },
    Key {
        name: "sandbox.disk_gb",
        env: &["SANDBOX_DISK_GB"],
        default: Some("8"),
        help: "Disk of a sandbox, in GiB.",
        apply: |config, text| set(&mut config.sandbox.resources.disk_gb, amount(text, 0.1, 65536.0)),
        ..PLAIN
    },
    Key {
        name: "sandbox.pids",
        env: &["SANDBOX_PIDS"],
        default: Some("4096"),
        help: "Processes and threads of a sandbox.",
        apply: |config, text| set(&mut config.sandbox.pids, whole(text, 16, 4_194_304)),
        ..PLAIN
    },
    Key {
        name: "sandbox.isolation",
        env: &["SANDBOX_ISOLATION"],
        default: Some("sampled"),
        help: "The least isolation a sandbox accepts: `strict` (every limit is kept by the kernel), `sampled` (by the kernel or by looking several times a second), `any` (what the host can do). A host that cannot do it refuses the sandbox; `sunaba doctor` says what it can do.",
        apply: |config, text| {
            let choices: Vec<_> =
                IsolationWanted::ALL.iter().map(|wanted| (wanted.as_str(), *wanted)).collect();
            set(&mut config.sandbox.isolation, one_of(text, &choices))
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.budget_usd",
        env: &["MAX_BUDGET_USD"],
        default: Some("10"),
        help: "What a task may spend on models, all its attempts together, in US dollars; 0 means no bound.",
        apply: |config, text| {
            let budget = amount(text, 0.0, 1_000_000.0).map(|usd| (usd > 0.0).then_some(usd));
            set(&mut config.sandbox.budget_usd, budget)
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.timeout_seconds",
        env: &["SANDBOX_TIMEOUT_SECONDS"],
        help: "How long an agent may work in a sandbox, all rounds together; then it is asked to end, and after 20 s ended. Default: no bound.",
        apply: |config, text| {
            set(
                &mut config.sandbox.timeout_seconds,
                whole(text, 1, 2_592_000).map(|seconds| Some(i64::from(seconds))),
            )
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.permission_mode",
        env: &["PERMISSION_MODE"],
        default: Some("bypass"),
        help: "What an agent may do without being allowed to, unless call, task or project say otherwise: `bypass` (everything: the sandbox is what holds it), `acceptEdits`, `ask`; see docs/permissions.md.",
        apply: |config, text| {
            let mode = PermissionMode::read(text).ok_or_else(|| format!("must be {}", PermissionMode::WORDS));
            set(&mut config.sandbox.permission_mode, mode)
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.image",
        env: &["SANDBOX_IMAGE"],
        default: Some("buildpack-deps:stable-scm"),
        help: "Image of container sandboxes whose project names none. It needs git, and certificates for an https tunnel.",
        apply: |config, text| set(&mut config.sandbox.image, not_blank(text)),
        ..PLAIN
    },
    Key {
        name: "sandbox.root_fs",
        env: &["SANDBOX_ROOT_FS"],
        help: "A directory that is the root file system of local sandboxes, read-only, in place of this host's `/usr`.",
        apply: |config, text| set(&mut config.sandbox.root_fs, directory(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "sandbox.worker_program",
        env: &["SUNABA_WORKER"],
        help: "The worker program that is bound into local sandboxes. Default: the one this program carries, else `sunaba-worker` beside it.",
        apply: |config, text| set(&mut config.sandbox.worker_program, directory(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "questions.hold_minutes",
        env: &["QUESTION_HOLD_MINUTES"],
        default: Some("15"),
        help: "How long a permission question waits for a person before `questions.policy` decides.",
        apply: |config, text| set(&mut config.questions.hold_minutes, amount(text, 0.0, 43_200.0)),
        ..PLAIN
    },
    Key {
        name: "questions.policy",
        env: &["QUESTION_POLICY"],
        default: Some("suspend"),
        help: "What becomes of a permission question that nobody answered in time: `deny`, `allow`, or `suspend` (the sandbox is given up, and the task goes on in a new one when the answer comes).",
        apply: |config, text| {
            let choices: Vec<_> =
                QuestionPolicy::ALL.iter().map(|policy| (policy.as_str(), *policy)).collect();
            set(&mut config.questions.policy, one_of(text, &choices))
        },
        ..PLAIN
    },
    Key {
        name: "anthropic.api_key",
        env: &["ANTHROPIC_API_KEY"],
        shown: Shown::Never,
        help: "Key for the model provider. It stays at the gateway and never enters a sandbox.",
        apply: |config, text| {
            set(&mut config.anthropic.api_key, not_blank(text).map(|key| Some(SecretString::from(key))))
        },
        ..PLAIN
    },
    Key {
        name: "anthropic.base_url",
        env: &["ANTHROPIC_BASE_URL"],
        default: Some("https://api.anthropic.com"),
        help: "Where the gateway sends model requests.",
        apply: |config, text| set(&mut config.anthropic.base_url, web_address(text)),
        ..PLAIN
    },
    Key {
        name: "openai.api_key",
        env: &["OPENAI_API_KEY"],
        shown: Shown::Never,
        help: "Key for OpenAI's models, or those of whoever speaks their language. It stays at the gateway and never enters a sandbox.",
        apply: |config, text| {
            set(&mut config.openai.api_key, not_blank(text).map(|key| Some(SecretString::from(key))))
        },
        ..PLAIN
    },
    Key {
        name: "openai.base_url",
        env: &["OPENAI_BASE_URL"],
        default: Some("https://api.openai.com"),
        help: "Where the gateway sends requests in OpenAI's language.",
        apply: |config, text| set(&mut config.openai.base_url, web_address(text)),
        ..PLAIN
    },
    Key {
        name: "google.api_key",
        env: &["GEMINI_API_KEY"],
        shown: Shown::Never,
        help: "Key for Google's Gemini models. It stays at the gateway and never enters a sandbox.",
        apply: |config, text| {
            set(&mut config.google.api_key, not_blank(text).map(|key| Some(SecretString::from(key))))
        },
        ..PLAIN
    },
    Key {
        name: "google.base_url",
        env: &["GOOGLE_GEMINI_BASE_URL"],
        default: Some("https://generativelanguage.googleapis.com"),
        help: "Where the gateway sends requests in Google's language.",
        apply: |config, text| set(&mut config.google.base_url, web_address(text)),
        ..PLAIN
    },
    Key {
        name: "gateway.prices",
        env: &["SUNABA_PRICES"],
        help: "A YAML file with prices of models, in US dollars per million tokens, that goes before the built-in table: `models: {NAME: {input: 3, output: 15}}`, with `default:` for models without a price; see docs/gateway.md.",
        apply: |config, text| set(&mut config.prices, directory(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "gateway.quota_wait_hours",
        env: &["QUOTA_WAIT_HOURS"],
        default: Some("192"),
        help: "The longest that a task waits, without its sandbox, for vendors' limits to be reset, all its waits together until somebody speaks to it. One that would wait longer fails with what the vendor says.",
        apply: |config, text| set(&mut config.quota_wait_hours, amount(text, 0.0, 8760.0)),
        ..PLAIN
    },
    Key {
        name: "egress.default",
        env: &["SUNABA_EGRESS"],
        default: Some("none"),
        help: "What sandboxes of a project that has not decided may reach: `none`, `registries` (public package registries), `open` (every public address).",
        apply: |config, text| {
            let choices: Vec<_> = EgressPreset::ALL.iter().map(|preset| (preset.as_str(), *preset)).collect();
            set(&mut config.egress.default, one_of(text, &choices))
        },
        ..PLAIN
    },
    Key {
        name: "egress.private_hosts",
        env: &["SUNABA_PRIVATE_HOSTS"],
        help: "Hosts and networks (with commas between them) that sandboxes may reach although their addresses are not public, where their project allows them: a registry of your own, `10.1.0.0/16`.",
        apply: |config, text| {
            config.egress.private_hosts = listed(text);
            Ok(())
        },
        ..PLAIN
    },
    Key {
        name: "docker.host",
        env: &["DOCKER_HOST"],
        default: Some("unix:///var/run/docker.sock"),
        help: "Where the container daemon listens. The provider `docker` is there when `sandbox.provider` is `docker` or this is set.",
        apply: |config, text| set(&mut config.docker.host, docker_host(text)),
        ..PLAIN
    },
    Key {
        name: "docker.remote",
        env: &["SUNABA_DOCKER_REMOTE"],
        default: Some("false"),
        help: "Whether the container daemon is on another machine: its sandboxes come back through a tunnel, and `public_url` is needed.",
        apply: |config, text| set(&mut config.docker.remote, boolean(text)),
        ..PLAIN
    },
    Key {
        name: "docker.network",
        env: &["SUNABA_DOCKER_NETWORK"],
        help: "The network of containers on another machine (`docker network ls` there): one that leads to `public_url`, and better to nothing else. Default: the daemon's own, `bridge`. Containers on this host have no network.",
        apply: |config, text| set(&mut config.docker.network, docker_network(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "secrets.key",
        env: &["SUNABA_SECRET_KEY"],
        shown: Shown::Never,
        help: "The key that seals projects' secrets: 32 bytes in base64 (`openssl rand -base64 32`). Default: `secret.key` in the data directory, made at the first start; with PostgreSQL there is no default, because all servers of a database share it. A server with another key than its store was first used with does not start.",
        apply: |config, text| {
            set(&mut config.secrets.key, not_blank(text).map(|key| Some(SecretString::from(key))))
        },
        ..PLAIN
    },
    Key {
        name: "secrets.key_file",
        env: &["SUNABA_SECRET_KEY_FILE"],
        help: "A file with that key, readable for the server's user alone.",
        apply: |config, text| set(&mut config.secrets.key_file, directory(text).map(Some)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.enabled",
        env: &["ORCHESTRATOR_ENABLED"],
        default: Some("true"),
        help: "`false` is another way to say `roles: api`.",
        apply: |config, text| set(&mut config.orchestrator.enabled, boolean(text)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.max_sandboxes",
        env: &["MAX_SANDBOXES"],
        default: Some("200"),
        help: "Most sandboxes that may live on this machine at once.",
        apply: |config, text| set(&mut config.orchestrator.max_sandboxes, whole(text, 1, 100_000)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.node_lost_minutes",
        env: &["NODE_LOST_MINUTES"],
        default: Some("15"),
        help: "Another server of the same database that was silent for so long is given up: its sandboxes fail and their tasks are tried again elsewhere. One that was stopped in order is waited for an hour at least.",
        apply: |config, text| set(&mut config.orchestrator.node_lost_minutes, whole(text, 2, 10_000)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.disk_free_gb",
        env: &["SUNABA_DISK_FREE_GB"],
        default: Some("2"),
        help: "With less free disk than this in the data directory, in GiB, no sandbox is started (those that are asked for wait) and no blob or push is taken.",
        apply: |config, text| set(&mut config.orchestrator.disk_free_gb, amount(text, 0.0, 1_048_576.0)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.max_turns",
        env: &["MAX_TURNS"],
        default: Some("50"),
        help: "Most turns an agent may take.",
        apply: |config, text| set(&mut config.orchestrator.max_turns, whole(text, 1, 100_000)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.follow_up_minutes",
        env: &["FOLLOW_UP_MINUTES"],
        default: Some("5"),
        help: "How long a sandbox whose agent is done waits for somebody to say more, in minutes. A message that comes later starts another sandbox.",
        apply: |config, text| set(&mut config.orchestrator.follow_up_minutes, amount(text, 0.0, 1440.0)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.heartbeat_seconds",
        env: &["HEARTBEAT_INTERVAL"],
        default: Some("30"),
        help: "Seconds between the signs of life of a worker. A sandbox that was not heard for two and a half of them (at least 10 s) is warned about; after two and a half times that it is ended and its task is tried again. Time in which this server could not have heard it does not count.",
        apply: |config, text| set(&mut config.orchestrator.heartbeat_seconds, whole(text, 1, 60)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.legacy_silence_minutes",
        env: &["LEGACY_SILENCE_MINUTES"],
        default: Some("15"),
        help: "The same time, in minutes, for a sandbox whose worker has not said that it gives signs of life all the time. `external` sandboxes are never ended for it.",
        apply: |config, text| set(&mut config.orchestrator.legacy_silence_minutes, whole(text, 1, 1440)),
        ..PLAIN
    },
];

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
