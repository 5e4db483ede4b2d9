//! How the environment wants the agent to work, in the runtimes' own words.

use sunaba_agent::{NativeConfig, ToolPolicy};
use sunaba_types::{ExecutionConfig, ExecutionMode};

use super::config::{ConfigError, Lookup};

/// The tools that change files and nothing else; other runtimes have more of them.
const EDITING: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];
const EXPLORE: &str = "This task is an exploration: find out and report. Leave every file as it is; do not edit, \
create or delete any, with a command neither.";
const VALIDATE: &str = "This task is a validation: judge the work that is there by reading it and by running its \
checks, and report what you saw. Leave every file as it is; do not repair what is wrong.";

/// The native runtime's settings.
pub(super) fn config(execution: &ExecutionConfig) -> NativeConfig {
    NativeConfig { tools: tools(execution), ..NativeConfig::default() }
}

/// Which tools there are.
fn tools(execution: &ExecutionConfig) -> ToolPolicy {
    let mut disallowed = execution.disallowed_tools.clone().unwrap_or_default();
    if words_for(execution.execution_mode).is_some() {
        disallowed.extend(EDITING.map(str::to_owned));
    }
    ToolPolicy {
        allowed: execution.allowed_tools.clone().unwrap_or_default(),
        disallowed,
        skills: execution.enable_skills,
        subagents: execution.enable_subagents,
    }
}

/// A switch; blank counts as not set.
pub(super) fn flag(lookup: Lookup<'_>, name: &'static str) -> Result<Option<bool>, ConfigError> {
    let Some(value) = lookup(name).filter(|value| !value.trim().is_empty()) else { return Ok(None) };
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(Some(true)),
        "false" | "0" | "no" | "off" => Ok(Some(false)),
        _ => Err(ConfigError::Impossible { name, value, why: "true or false" }),
    }
}

/// What comes after the system prompt: what the work is for, then what was said.
pub(super) fn system_prompt_append(execution: &ExecutionConfig) -> Option<String> {
    let said = execution.system_prompt_append.as_deref();
    let words: Vec<&str> = words_for(execution.execution_mode).into_iter().chain(said).collect();
    (!words.is_empty()).then(|| words.join("\n\n"))
}

fn words_for(mode: Option<ExecutionMode>) -> Option<&'static str> {
    match mode? {
        ExecutionMode::Exploration => Some(EXPLORE),
        ExecutionMode::Validation => Some(VALIDATE),
        ExecutionMode::Implementation => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_explores_or_validates_has_no_tools_that_edit() {
        let mode = |mode| ExecutionConfig {
            execution_mode: Some(mode),
            disallowed_tools: Some(vec!["Skill".to_owned()]),
            system_prompt_append: Some("Be brief.".to_owned()),
            ..ExecutionConfig::default()
        };
        let changing = mode(ExecutionMode::Implementation);
        assert_eq!(tools(&changing).disallowed, ["Skill"]);
        assert_eq!(system_prompt_append(&changing).as_deref(), Some("Be brief."));
        for (mode, word) in [
            (mode(ExecutionMode::Exploration), "exploration"),
            (mode(ExecutionMode::Validation), "validation"),
        ] {
            assert_eq!(tools(&mode).disallowed, ["Skill", "Write", "Edit", "MultiEdit", "NotebookEdit"]);
            let words = system_prompt_append(&mode).unwrap();
            assert!(words.contains(word) && words.ends_with("\n\nBe brief."), "{words}");
        }
        assert_eq!(system_prompt_append(&ExecutionConfig::default()), None);
    }
}
