//! The table of keys: every setting once, with its names, its default and what it may be.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::tree::{AuthMode, Config, Database, LogFormat};

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
    /// Whether it must never be shown.
    pub(crate) secret: bool,
    /// What it does.
    pub(crate) help: &'static str,
    /// Reads the text into the tree; the error completes the sentence "VALUE …".
    pub(crate) apply: fn(&mut Config, &str) -> Result<(), String>,
}

/// A key that is not secret and has no flag.
const PLAIN: Key =
    Key { name: "", env: &[], flag: None, default: None, secret: false, help: "", apply: |_, _| Ok(()) };

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
        name: "database_url",
        env: &["DATABASE_URL"],
        flag: Some("database-url"),
        help: "`sqlite:FILE`. Default: `sunaba.db` in the data directory.",
        apply: |config, text| set(&mut config.database, database(text)),
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
        help: "What makes sandboxes: `local`, or `external` for ones that somebody else runs.",
        apply: |config, text| {
            set(
                &mut config.sandbox.provider,
                one_of(text, &[("local", "local".to_owned()), ("external", "external".to_owned())]),
            )
        },
        ..PLAIN
    },
    Key {
        name: "sandbox.runtime",
        env: &["SANDBOX_RUNTIME"],
        default: Some("native"),
        help: "Which agent drives a sandbox: `native`.",
        apply: |config, text| {
            set(&mut config.sandbox.runtime, one_of(text, &[("native", "native".to_owned())]))
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
        help: "Memory of a sandbox, in GiB. Kept with the sandbox, but not enforced yet.",
        apply: |config, text| set(&mut config.sandbox.resources.memory_gb, amount(text, 0.1, 4096.0)),
        ..PLAIN
    },
    Key {
        name: "sandbox.cpu",
        env: &["SANDBOX_CPU"],
        default: Some("2"),
        help: "Processor cores of a sandbox. Kept with the sandbox, but not enforced yet.",
        apply: |config, text| set(&mut config.sandbox.resources.cpu, amount(text, 0.1, 1024.0)),
        ..PLAIN
    },
    Key {
        name: "sandbox.disk_gb",
        env: &["SANDBOX_DISK_GB"],
        default: Some("8"),
        help: "Disk of a sandbox, in GiB. Kept with the sandbox, but not enforced yet.",
        apply: |config, text| set(&mut config.sandbox.resources.disk_gb, amount(text, 0.1, 65536.0)),
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
        name: "anthropic.api_key",
        env: &["ANTHROPIC_API_KEY"],
        secret: true,
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
        name: "orchestrator.enabled",
        env: &["ORCHESTRATOR_ENABLED"],
        default: Some("true"),
        help: "Whether this process starts sandboxes and looks after them; `false` serves the API only.",
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
        name: "orchestrator.max_turns",
        env: &["MAX_TURNS"],
        default: Some("50"),
        help: "Most turns an agent may take.",
        apply: |config, text| set(&mut config.orchestrator.max_turns, whole(text, 1, 100_000)),
        ..PLAIN
    },
    Key {
        name: "orchestrator.heartbeat_seconds",
        env: &["HEARTBEAT_INTERVAL"],
        default: Some("30"),
        help: "Seconds between the signs of life of a worker.",
        apply: |config, text| set(&mut config.orchestrator.heartbeat_seconds, whole(text, 1, 60)),
        ..PLAIN
    },
];

/// The key of this name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

fn set<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn socket(text: &str) -> Result<SocketAddr, String> {
    let with_host = if let Some(port) = text.strip_prefix(':') {
        format!("127.0.0.1:{port}")
    } else {
        text.replacen("localhost:", "127.0.0.1:", 1)
    };
    with_host.parse().map_err(|_| "is not an address with a port; write 127.0.0.1:18000".to_owned())
}

fn directory(text: &str) -> Result<PathBuf, String> {
    if text.trim().is_empty() {
        return Err("is empty; write a path".to_owned());
    }
    std::path::absolute(Path::new(text)).map_err(|error| format!("is not a path: {error}"))
}

fn web_address(text: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(text).map_err(|_| "is not an address; write https://host".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must start with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn database(text: &str) -> Result<Database, String> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Err("names PostgreSQL, which this version cannot use yet; leave it out for SQLite".to_owned());
    }
    let path = text.strip_prefix("sqlite://").or_else(|| text.strip_prefix("sqlite:"));
    match path {
        Some(path) if !path.is_empty() && !path.starts_with(":memory:") => {
            directory(path).map(Database::File)
        }
        _ => Err("is not a database address; write sqlite:/path/to/file.db".to_owned()),
    }
}

fn one_of<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(value.clone());
    }
    let names = choices.iter().map(|(name, _)| *name);
    let listed = names.clone().collect::<Vec<_>>().join(" or ");
    match super::suggest::nearest(text, names) {
        Some(known) => Err(format!("must be {listed}; did you mean {known:?}?")),
        None => Err(format!("must be {listed}")),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

fn amount(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("must be a number from {least} to {most}"))
}

fn whole(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number: Option<u32> = text.trim().parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

fn not_blank(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn directives(text: &str) -> Result<String, String> {
    const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace", "off"];
    for word in text.split(',').map(str::trim) {
        // A word alone would be taken for a part of the program that does not exist.
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
        if !is_level && !word.contains(['=', '[']) {
            let meant = super::suggest::nearest(word, LEVELS.iter().copied());
            let meant = meant.map(|level| format!("; did you mean {level:?}?")).unwrap_or_default();
            return Err(format!("is not a log level; it must be {}{meant}", LEVELS.join(", ")));
        }
    }
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("is not a log level: {error}"))
}
