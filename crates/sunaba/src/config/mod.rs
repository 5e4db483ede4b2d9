//! Configuration: one typed tree, filled from defaults, files, environment and flags in that order.
//!
//! Every key is declared once, in [`keys`]: its name, where it may be set, what it may be. This module
//! layers the values, keeps where each came from, and refuses what it does not know: an unknown key in a
//! file or an impossible value anywhere stops the start. Unknown environment variables are ignored,
//! because the environment belongs to everybody.

mod address;
mod check;
mod file;
mod keys;
mod read;
mod show;
mod suggest;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use self::keys::Shown;
pub(crate) use address::{database, without_password};
pub(crate) use keys::{KEYS, Key};
pub(crate) use show::{reference, to_json, to_text};
pub(crate) use tree::{AuthMode, Config, Database, LogFormat, ModelConfig};

/// The file that is read from the data directory when no file is named.
const DEFAULT_FILE: &str = "sunaba.yaml";
/// Its overlay: read after it, so its values win.
const DEFAULT_OVERLAY: &str = "sunaba.local.yaml";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Built in.
    Default,
    /// A line of a file.
    File { path: PathBuf, line: u64 },
    /// An environment variable.
    Environment(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// A value as it was written, and where.
#[derive(Clone)]
pub(crate) struct Value {
    /// The text.
    pub(crate) text: String,
    /// Where it stands.
    pub(crate) origin: Origin,
}

/// What was set outside of files.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// Files named on the command line; a later one wins over an earlier one.
    pub(crate) files: Vec<PathBuf>,
    /// Values given as flags, by key.
    pub(crate) flags: BTreeMap<&'static str, String>,
    /// The environment.
    pub(crate) env: BTreeMap<String, String>,
}

impl Outside {
    /// Nothing but the process's environment.
    pub(crate) fn from_process() -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { env, ..Self::default() }
    }
}

/// Everything that is wrong with a configuration; one line each.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}", .0.join("\n"))]
pub(crate) struct ConfigError(pub(crate) Vec<String>);

/// The effective configuration with the origin of every value.
///
/// Its `Debug` shows the tree alone, because the texts hold secrets as they were written.
pub(crate) struct Loaded {
    /// The typed tree.
    pub(crate) config: Config,
    /// Each key that has a value, and its origin.
    pub(crate) values: BTreeMap<&'static str, Value>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl Loaded {
    /// Names settings whose password everybody on this machine can read in the list of processes.
    pub(crate) fn passwords_in_flags(&self) -> Vec<&'static str> {
        let in_flag =
            |value: &Value| matches!(value.origin, Origin::Flag(_)) && address::has_password(&value.text);
        let shown = KEYS.iter().filter(|key| key.shown == Shown::WithoutPassword);
        shown.filter(|key| self.values.get(key.name).is_some_and(in_flag)).map(|key| key.name).collect()
    }
}

/// Reads and checks the whole configuration.
pub(crate) fn load(outside: &Outside) -> Result<Loaded, ConfigError> {
    let mut values = defaults(&outside.env);
    let mut problems = Vec::new();

    let data_dir = data_dir(outside);
    for path in files(outside, &data_dir) {
        match file::read(&path) {
            Ok(lines) => layer_file(&path, lines, outside.files.is_empty(), &mut values, &mut problems),
            Err(problem) => problems.push(problem),
        }
    }
    layer_env(&outside.env, &mut values);
    layer_flags(&outside.flags, &mut values);

    let mut config = Config::unset();
    for key in KEYS {
        let Some(value) = values.get(key.name) else { continue };
        if let Err(why) = (key.apply)(&mut config, &value.text) {
            problems.push(impossible(key, value, &why));
        }
    }
    let origin = values.get("docker.host").map(|value| &value.origin);
    config.docker.named = origin.is_some_and(|origin| *origin != Origin::Default);
    let orchestrates = config.roles.orchestrator;
    config.roles.orchestrator &= config.orchestrator.enabled;
    if problems.is_empty() {
        check::across(&config, &values, &mut problems);
        check::roles(orchestrates, &config, &values, &mut problems);
    }
    if problems.is_empty() { Ok(Loaded { config, values }) } else { Err(ConfigError(problems)) }
}

/// The data directory by flag, environment or custom, before any file is read.
pub(crate) fn data_dir(outside: &Outside) -> PathBuf {
    let set = outside.flags.get("data_dir").or_else(|| outside.env.get("SUNABA_DATA"));
    match set {
        Some(path) if !path.is_empty() => absolute(Path::new(path)),
        _ => default_data_dir(&outside.env),
    }
}

fn default_data_dir(env: &BTreeMap<String, String>) -> PathBuf {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("sunaba")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn files(outside: &Outside, data_dir: &Path) -> Vec<PathBuf> {
    if !outside.files.is_empty() {
        return outside.files.clone();
    }
    [DEFAULT_FILE, DEFAULT_OVERLAY]
        .iter()
        .map(|name| data_dir.join(name))
        .filter(|path| path.exists())
        .collect()
}

fn defaults(env: &BTreeMap<String, String>) -> BTreeMap<&'static str, Value> {
    let built_in = |text: String| Value { text, origin: Origin::Default };
    let mut values: BTreeMap<_, _> =
        KEYS.iter().filter_map(|key| Some((key.name, built_in(key.default?.to_owned())))).collect();
    values.insert("data_dir", built_in(default_data_dir(env).display().to_string()));
    values
}

fn layer_file(
    path: &Path,
    lines: Vec<file::Line>,
    found_in_data_dir: bool,
    values: &mut BTreeMap<&'static str, Value>,
    problems: &mut Vec<String>,
) {
    for line in lines {
        let origin = Origin::File { path: path.to_owned(), line: line.number };
        match keys::find(&line.key) {
            None => problems.push(unknown(&origin, &line.key)),
            Some(key) if key.name == "data_dir" && found_in_data_dir => problems.push(format!(
                "{origin}: data_dir cannot be set in the data directory's own file; use --data or SUNABA_DATA"
            )),
            Some(key) => {
                values.insert(key.name, Value { text: line.value, origin });
            }
        }
    }
}

fn layer_env(env: &BTreeMap<String, String>, values: &mut BTreeMap<&'static str, Value>) {
    for key in KEYS {
        for &name in key.env {
            if let Some(text) = env.get(name).filter(|text| !text.is_empty()) {
                let origin = Origin::Environment(name);
                values.insert(key.name, Value { text: text.clone(), origin });
                break;
            }
        }
    }
}

fn layer_flags(flags: &BTreeMap<&'static str, String>, values: &mut BTreeMap<&'static str, Value>) {
    for key in KEYS {
        if let (Some(flag), Some(text)) = (key.flag, flags.get(key.name)) {
            values.insert(key.name, Value { text: text.clone(), origin: Origin::Flag(flag) });
        }
    }
}

fn unknown(origin: &Origin, written: &str) -> String {
    match suggest::nearest(written, KEYS.iter().map(|key| key.name)) {
        Some(known) => format!("{origin}: unknown key {written:?}; did you mean {known:?}?"),
        None => format!("{origin}: unknown key {written:?}; `sunaba config` lists every key"),
    }
}

fn impossible(key: &Key, value: &Value, why: &str) -> String {
    let Value { text, origin } = value;
    let shown = match key.shown {
        Shown::Never => "the value".to_owned(),
        Shown::Whole | Shown::WithoutPassword => format!("{:?}", show::shown(key, text)),
    };
    format!("{origin}: {}: {shown} {why}", key.name)
}
