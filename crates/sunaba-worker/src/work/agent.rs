//! Which agent does the work.

use sunaba_agent::{ClaudeConfig, ClaudeRuntime, NativeConfig, NativeRuntime, Runtime};

use super::config::{ConfigError, Lookup};

const VARIABLE: &str = "SANDBOX_RUNTIME";

/// An agent that a sandbox can be driven by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Agent {
    /// The loop that is part of this program.
    #[default]
    Native,
    /// The Claude Code CLI, found on the path.
    Claude,
}

impl Agent {
    /// Reads which one is wanted.
    pub(super) fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        match lookup(VARIABLE).filter(|value| !value.trim().is_empty()) {
            None => Ok(Self::default()),
            Some(value) => match value.as_str() {
                "native" => Ok(Self::Native),
                "claude" => Ok(Self::Claude),
                _ => Err(ConfigError::Impossible { name: VARIABLE, value, why: "native or claude" }),
            },
        }
    }

    /// What it is made of, as `agent.started` tells it.
    pub(super) fn sdk(self) -> &'static str {
        match self {
            Self::Native => "sunaba-native",
            Self::Claude => "claude-code",
        }
    }

    /// Its name, as users choose it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Claude => "claude",
        }
    }

    pub(super) fn runtime(self, native: &NativeConfig) -> Box<dyn Runtime> {
        match self {
            Self::Native => Box::new(NativeRuntime::new(native.clone())),
            Self::Claude => Box::new(ClaudeRuntime::new(ClaudeConfig::default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_chosen_by_the_name_that_it_has_itself() {
        for agent in [Agent::Native, Agent::Claude] {
            assert_eq!(Agent::read(&|_| Some(agent.name().to_owned())), Ok(agent));
            assert_eq!(agent.runtime(&NativeConfig::default()).name(), agent.name());
        }
        assert_eq!(Agent::read(&|_| None), Ok(Agent::Native));
        let error = Agent::read(&|_| Some("parrot".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "SANDBOX_RUNTIME cannot be \"parrot\": native or claude");
    }
}
