//! How an agent is to work: what it may do unasked, which tools it has, what it is told besides its task.
//!
//! The same object is said in a call, on a task and on a project, and reaches the worker as variables of its
//! environment; [`variables`] knows both spellings.

pub mod variables;

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;

wire_enum!(
    /// What an agent may do without being allowed to.
    PermissionMode {
        /// Everything: the sandbox is what holds it.
        Bypass => "bypass",
        /// Read and edit files in the work tree; the rest is asked for.
        AcceptEdits => "acceptEdits",
        /// Read only; the rest is asked for.
        Ask => "ask",
    }
);

#[expect(clippy::derivable_impls, reason = "the macro that makes the enum derives no default")]
impl Default for PermissionMode {
    fn default() -> Self {
        Self::Bypass
    }
}

impl PermissionMode {
    /// What it must be, in words.
    pub const WORDS: &str = "bypass, acceptEdits or ask";

    /// Reads a name: ours, or the one that Claude Code has for the same. Its `plan` is none of these.
    pub fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "bypassPermissions" => Some(Self::Bypass),
            "default" => Some(Self::Ask),
            text => Self::parse(text),
        }
    }
}

wire_enum!(
    /// What the work is for.
    ExecutionMode {
        /// To find out; files stay as they are.
        Exploration => "exploration",
        /// To change something.
        Implementation => "implementation",
        /// To judge what somebody else changed; files stay as they are.
        Validation => "validation",
    }
);

wire_enum!(
    /// What becomes of a question that nobody answered in time.
    QuestionPolicy {
        /// The agent may not.
        Deny => "deny",
        /// The agent may.
        Allow => "allow",
        /// It stays open, and the agent goes on when the answer comes.
        Suspend => "suspend",
    }
);

/// Most names of tools in a list.
pub const TOOLS_MAX: usize = 200;
/// Longest name of a tool, with its condition.
pub const TOOL_MAX_CHARS: usize = 200;
/// Longest system prompt, and longest addition to one. They travel as variables, which the kernel bounds.
pub const SYSTEM_PROMPT_MAX_BYTES: usize = 64 * 1024;
/// Most turns that may be asked for.
pub const TURNS_MAX: u32 = 100_000;
/// Longest that a question may be held: thirty days.
pub const HOLD_MAX_SECONDS: u32 = 30 * 24 * 3600;

/// How an agent is to work; what is absent is decided by whoever is asked next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecutionConfig {
    /// What it may do without being allowed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Only these tools; none named means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// None of these tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disallowed_tools: Option<Vec<String>>,
    /// Whether it has skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_skills: Option<bool>,
    /// Whether it has helpers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_subagents: Option<bool>,
    /// Takes the place of its system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Comes after its system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_append: Option<String>,
    /// Most turns it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What the work is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_mode: Option<ExecutionMode>,
    /// How long a question waits before the policy below decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_hold_seconds: Option<u32>,
    /// What becomes of a question that nobody answered in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_policy: Option<QuestionPolicy>,
}

impl ExecutionConfig {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is said here, and what `other` says where this is silent.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            permission_mode: self.permission_mode.or(other.permission_mode),
            allowed_tools: self.allowed_tools.clone().or_else(|| other.allowed_tools.clone()),
            disallowed_tools: self.disallowed_tools.clone().or_else(|| other.disallowed_tools.clone()),
            enable_skills: self.enable_skills.or(other.enable_skills),
            enable_subagents: self.enable_subagents.or(other.enable_subagents),
            system_prompt: self.system_prompt.clone().or_else(|| other.system_prompt.clone()),
            system_prompt_append: self
                .system_prompt_append
                .clone()
                .or_else(|| other.system_prompt_append.clone()),
            max_turns: self.max_turns.or(other.max_turns),
            execution_mode: self.execution_mode.or(other.execution_mode),
            question_hold_seconds: self.question_hold_seconds.or(other.question_hold_seconds),
            question_policy: self.question_policy.or(other.question_policy),
        }
    }

    /// What cannot be right, by the name of its field.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        for (name, tools) in
            [("allowed_tools", &self.allowed_tools), ("disallowed_tools", &self.disallowed_tools)]
        {
            let tools = tools.as_deref().unwrap_or_default();
            if tools.len() > TOOLS_MAX || !tools.iter().all(|tool| is_tool(tool)) {
                let words = format!(
                    "must be at most {TOOLS_MAX} names of 1 to {TOOL_MAX_CHARS} characters, such as Read or Bash(git:*)"
                );
                faults.push((name, words));
            }
        }
        for (name, words) in
            [("system_prompt", &self.system_prompt), ("system_prompt_append", &self.system_prompt_append)]
        {
            let words = words.as_deref().unwrap_or_default();
            if words.len() > SYSTEM_PROMPT_MAX_BYTES || words.contains('\0') {
                faults.push((name, format!("must have at most {SYSTEM_PROMPT_MAX_BYTES} bytes and no NUL")));
            }
        }
        if self.max_turns.is_some_and(|turns| !(1..=TURNS_MAX).contains(&turns)) {
            faults.push(("max_turns", format!("must be from 1 to {TURNS_MAX}")));
        }
        if self.question_hold_seconds.is_some_and(|seconds| seconds > HOLD_MAX_SECONDS) {
            faults.push(("question_hold_seconds", format!("must be at most {HOLD_MAX_SECONDS}")));
        }
        faults
    }
}

/// Whether a tool can have this name. A comma outside of parentheses would make two of it.
fn is_tool(name: &str) -> bool {
    (1..=TOOL_MAX_CHARS).contains(&name.chars().count())
        && !name.chars().any(char::is_control)
        && variables::names(name) == [name]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_go_by_our_names_and_by_those_of_claude_code() {
        for (text, mode) in [
            ("bypass", Some(PermissionMode::Bypass)),
            ("bypassPermissions", Some(PermissionMode::Bypass)),
            ("acceptEdits", Some(PermissionMode::AcceptEdits)),
            (" ask ", Some(PermissionMode::Ask)),
            ("default", Some(PermissionMode::Ask)),
            ("plan", None),
            ("ASK", None),
            ("", None),
        ] {
            assert_eq!(PermissionMode::read(text), mode, "{text}");
        }
    }

    #[test]
    fn what_is_said_first_counts() {
        let call = ExecutionConfig { max_turns: Some(3), ..ExecutionConfig::default() };
        let project = ExecutionConfig {
            max_turns: Some(9),
            enable_skills: Some(false),
            disallowed_tools: Some(vec!["Bash".to_owned()]),
            ..ExecutionConfig::default()
        };
        let both = call.or(&project);
        assert_eq!(both, ExecutionConfig { max_turns: Some(3), ..project });
        assert!(ExecutionConfig::default().or(&ExecutionConfig::default()).is_empty());
    }

    #[test]
    fn every_fault_is_named() {
        let names = |config: ExecutionConfig| -> Vec<&str> {
            config.faults().into_iter().map(|(name, _)| name).collect()
        };
        let tools = |tools: &[&str]| ExecutionConfig {
            allowed_tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
            ..ExecutionConfig::default()
        };
        assert!(names(tools(&["Read", "Bash(git add, git commit)", "mcp__x__y"])).is_empty());
        for bad in ["", "a,b", "a\nb", " a", &"x".repeat(201)] {
            assert_eq!(names(tools(&[bad])), ["allowed_tools"], "{bad:?}");
        }
        assert_eq!(names(tools(&["x"; 201])), ["allowed_tools"]);
        let wrong = ExecutionConfig {
            system_prompt: Some("\0".to_owned()),
            system_prompt_append: Some("x".repeat(SYSTEM_PROMPT_MAX_BYTES + 1)),
            max_turns: Some(0),
            question_hold_seconds: Some(HOLD_MAX_SECONDS + 1),
            ..ExecutionConfig::default()
        };
        assert_eq!(
            names(wrong),
            ["system_prompt", "system_prompt_append", "max_turns", "question_hold_seconds"]
        );
    }
}
