//! Which agent does the work.

use sunaba_agent::{
    AcpAgent, AcpConfig, AcpRuntime, ClaudeConfig, ClaudeRuntime, NativeConfig, NativeRuntime, Runtime,
};

use super::config::{ConfigError, Lookup};

const VARIABLE: &str = "SANDBOX_RUNTIME";

/// An agent that a sandbox can be driven by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Agent {
    /// The loop that is part of this program.
    #[default]
    Native,
    /// The Claude Code CLI, found on the path.
    Claude,
    /// One that speaks the Agent Client Protocol, found on the path.
    Acp(AcpAgent),
}

impl Agent {
    /// Reads which one is wanted.
    pub(super) fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        match lookup(VARIABLE).filter(|value| !value.trim().is_empty()) {
            None => Ok(Self::default()),
            Some(value) => match value.as_str() {
                "native" => Ok(Self::Native),
                "claude" => Ok(Self::Claude),
                other => AcpAgent::named(other).map(Self::Acp).ok_or(ConfigError::Impossible {
                    name: VARIABLE,
                    value,
                    why: "native, claude, codex, opencode, claude-acp, gemini, openhands, or acp: and a command line",
                }),
            },
        }
    }

    /// What it is made of, as `agent.started` tells it.
    pub(super) fn sdk(&self) -> &'static str {
        match self {
            Self::Native => "sunaba-native",
            Self::Claude => "claude-code",
            Self::Acp(_) => "agent-client-protocol",
        }
    }

    /// Its name, as users choose it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Claude => "claude",
            Self::Acp(agent) => agent.name(),
        }
    }

    pub(super) fn runtime(&self, native: &NativeConfig) -> Box<dyn Runtime> {
        match self {
            Self::Native => Box::new(NativeRuntime::new(native.clone())),
            Self::Claude => {
                let tools = native.tools.clone();
                Box::new(ClaudeRuntime::new(ClaudeConfig { tools, ..ClaudeConfig::default() }))
            }
            Self::Acp(agent) => Box::new(AcpRuntime::new(AcpConfig::new(agent.clone()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_chosen_by_the_name_that_it_has_itself() {
        for agent in [Agent::Native, Agent::Claude].into_iter().chain(AcpAgent::KNOWN.map(Agent::Acp)) {
            assert_eq!(Agent::read(&|_| Some(agent.name().to_owned())).as_ref(), Ok(&agent));
            assert_eq!(agent.runtime(&NativeConfig::default()).name(), agent.name());
        }
        assert_eq!(Agent::read(&|_| None), Ok(Agent::Native));
        let words = ["my-agent", "--flag", "two words"].map(str::to_owned).to_vec();
        let by_line = Agent::read(&|_| Some("acp: my-agent --flag 'two words'".to_owned()));
        assert_eq!(by_line, Ok(Agent::Acp(AcpAgent::Command(words))));
        let error = Agent::read(&|_| Some("parrot".to_owned())).unwrap_err();
        assert!(error.to_string().starts_with("SANDBOX_RUNTIME cannot be \"parrot\": native, claude, codex"));
    }
}
