//! What the worker is told through its environment (the names are the wire contract's).

use std::path::PathBuf;
use std::time::Duration;

use sunaba_agent::NativeConfig;
use sunaba_llm::ApiKey;
use sunaba_types::PermissionMode;
use sunaba_types::execution::variables::{self, Impossible};
use sunaba_types::limits::HEARTBEAT_SECONDS;

pub use super::agent::Agent;
pub use super::continuous::Continuous;
use super::native;
pub use super::resumption::Resumption;

const HEARTBEAT_MIN_SECONDS: f64 = 0.05;
const MAX_TURNS_DEFAULT: u32 = 50;
const TITLE_MAX_CHARS: usize = 72;

/// What is wrong with the environment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not set, or empty.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// Set to something impossible.
    #[error("{name} cannot be {value:?}: {why}")]
    Impossible {
        /// Which.
        name: &'static str,
        /// Its value.
        value: String,
        /// Why not.
        why: &'static str,
    },
}

impl From<Impossible> for ConfigError {
    fn from(wrong: Impossible) -> Self {
        Self::Impossible { name: wrong.name, value: wrong.value, why: wrong.why }
    }
}

/// Where and as whom the worker reports: enough to say that the rest is wrong.
#[derive(Clone)]
pub struct Identity {
    /// The sandbox.
    pub sandbox_id: String,
    /// The task.
    pub task_id: Option<String>,
    /// The agent.
    pub agent_id: Option<String>,
    /// The server, without a slash at the end.
    pub callback_url: String,
    /// The sandbox's own token.
    pub token: String,
    /// How often to say that we live.
    pub heartbeat: Duration,
    /// The home directory; the spool is in it.
    pub home: PathBuf,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("sandbox_id", &self.sandbox_id).finish_non_exhaustive()
    }
}

/// The work to do.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// What the agent is told.
    pub prompt: String,
    /// What it is all about; what the agent is told may only be the latest of it.
    pub task: Option<String>,
    /// In a few words, for the commit.
    pub title: String,
    /// Which agent.
    pub agent: Agent,
    /// Which model.
    pub model: String,
    /// Where it is called.
    pub model_url: String,
    /// Where it is called by agents that speak OpenAI's protocols; empty when nobody says.
    pub openai_url: String,
    /// Where it is called by agents that speak Google's; empty when nobody says.
    pub google_url: String,
    /// What is shown there.
    pub model_key: ApiKey,
    /// Where the work is.
    pub cwd: PathBuf,
    /// The branch to push to.
    pub branch: String,
    /// Where an empty workspace is cloned from, when the server could not do it.
    pub clone_url: Option<String>,
    /// Most model calls.
    pub max_turns: u32,
    /// Takes the place of the system prompt.
    pub system_prompt: Option<String>,
    /// Comes after it.
    pub system_prompt_append: Option<String>,
    /// What the agent may do without being allowed to.
    pub permission_mode: PermissionMode,
    /// What kind of agent.
    pub agent_type: String,
    /// How the native runtime works.
    pub native: NativeConfig,
    /// Whether it goes on until its work is seen to be done, and when that is over.
    pub continuous: Option<Continuous>,
    /// The conversation to go on with.
    pub resumption: Option<Resumption>,
    /// The message that the prompt says.
    pub prompt_message: Option<String>,
    /// How long to wait for somebody to say more when the agent is done.
    pub follow_up: Duration,
}

/// Reads one variable; empty counts as not set.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn required(lookup: Lookup<'_>, name: &'static str) -> Result<String, ConfigError> {
    optional(lookup, name).ok_or(ConfigError::Missing(name))
}

fn optional(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).filter(|value| !value.trim().is_empty())
}

impl Identity {
    /// Reads it.
    pub fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        let callback = optional(lookup, "CALLBACK_URL")
            .or_else(|| optional(lookup, "MCP_SERVER_URL"))
            .ok_or(ConfigError::Missing("CALLBACK_URL"))?;
        Ok(Self {
            sandbox_id: required(lookup, "SANDBOX_ID")?,
            task_id: optional(lookup, "TASK_ID"),
            agent_id: optional(lookup, "AGENT_ID"),
            callback_url: callback.trim_end_matches('/').to_owned(),
            token: required(lookup, "SANDBOX_TOKEN")?,
            heartbeat: heartbeat(lookup)?,
            home: PathBuf::from(optional(lookup, "HOME").unwrap_or_else(|| "/tmp".to_owned())),
        })
    }
}

fn heartbeat(lookup: Lookup<'_>) -> Result<Duration, ConfigError> {
    let Some(value) = optional(lookup, "HEARTBEAT_INTERVAL") else {
        return Ok(Duration::from_secs_f64(HEARTBEAT_SECONDS));
    };
    match value.parse::<f64>() {
        Ok(seconds) if (HEARTBEAT_MIN_SECONDS..=3600.0).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(ConfigError::Impossible {
            name: "HEARTBEAT_INTERVAL",
            value,
            why: "a number of seconds up to 3600",
        }),
    }
}

impl Assignment {
    /// Reads it.
    pub fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        let prompt = optional(lookup, "INITIAL_PROMPT")
            .or_else(|| optional(lookup, "TASK_DESCRIPTION"))
            .ok_or(ConfigError::Missing("INITIAL_PROMPT"))?;
        let title = optional(lookup, "TICKET_TITLE").unwrap_or_else(|| prompt.clone());
        let key = optional(lookup, "ANTHROPIC_API_KEY")
            .or_else(|| optional(lookup, "ANTHROPIC_AUTH_TOKEN"))
            .ok_or(ConfigError::Missing("ANTHROPIC_API_KEY"))?;
        let execution = variables::read(lookup)?;
        Ok(Self {
            title: first_line(&title),
            prompt,
            task: optional(lookup, "TASK_DESCRIPTION"),
            agent: Agent::read(lookup)?,
            model: optional(lookup, "MODEL")
                .or_else(|| optional(lookup, "ANTHROPIC_MODEL"))
                .ok_or(ConfigError::Missing("MODEL"))?,
            model_url: required(lookup, "ANTHROPIC_BASE_URL")?,
            openai_url: optional(lookup, "OPENAI_BASE_URL").unwrap_or_default(),
            google_url: optional(lookup, "GOOGLE_GEMINI_BASE_URL").unwrap_or_default(),
            model_key: ApiKey::new(key),
            cwd: PathBuf::from(optional(lookup, "CWD").unwrap_or_else(|| "/workspace".to_owned())),
            branch: required(lookup, "BRANCH_NAME")?,
            clone_url: optional(lookup, "CLONE_URL"),
            max_turns: execution.max_turns.unwrap_or(MAX_TURNS_DEFAULT),
            system_prompt_append: native::system_prompt_append(&execution),
            permission_mode: execution.permission_mode.unwrap_or_default(),
            native: native::config(&execution),
            system_prompt: execution.system_prompt,
            agent_type: optional(lookup, "AGENT_TYPE").unwrap_or_else(|| "implementer".to_owned()),
            continuous: Continuous::read(lookup)?,
            resumption: Resumption::read(lookup)?,
            prompt_message: optional(lookup, "SUNABA_PROMPT_MESSAGE"),
            follow_up: follow_up(lookup)?,
        })
    }
}

fn follow_up(lookup: Lookup<'_>) -> Result<Duration, ConfigError> {
    const NAME: &str = "FOLLOW_UP_MINUTES";
    let Some(value) = optional(lookup, NAME) else { return Ok(Duration::ZERO) };
    match value.parse::<f64>() {
        Ok(minutes) if (0.0..=1440.0).contains(&minutes) => Ok(Duration::from_secs_f64(minutes * 60.0)),
        _ => Err(ConfigError::Impossible { name: NAME, value, why: "a number of minutes up to 1440" }),
    }
}

fn first_line(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().take(TITLE_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn names_what_is_missing_or_impossible() {
        assert_eq!(Identity::read(&lookup(&[])).unwrap_err(), ConfigError::Missing("CALLBACK_URL"));
        let pairs = &[
            ("CALLBACK_URL", "http://x/"),
            ("SANDBOX_ID", "s"),
            ("SANDBOX_TOKEN", "secret"),
            ("HEARTBEAT_INTERVAL", "soon"),
        ];
        let error = Identity::read(&lookup(pairs)).unwrap_err();
        assert!(error.to_string().contains("HEARTBEAT_INTERVAL"), "{error}");
        let identity = Identity::read(&lookup(&pairs[..3])).unwrap();
        assert_eq!(identity.callback_url, "http://x");
        assert_eq!(identity.heartbeat, Duration::from_secs(30));
        assert!(!format!("{identity:?}").contains("secret"));
    }

    #[test]
    fn the_title_is_one_short_line() {
        assert_eq!(first_line("  Fix it\nand more"), "Fix it");
        assert_eq!(first_line(&"x".repeat(100)).len(), TITLE_MAX_CHARS);
    }
}
