//! How an agent is to work, as flags.

use clap::Args;
use sunaba_types::{ExecutionMode, PermissionMode, QuestionPolicy};

use super::{one_of, seconds};

/// How the agent works. What is absent is the project's setting, else the server's.
#[derive(Debug, Default, Args)]
pub(crate) struct AgentTerms {
    /// What the agent may do without being allowed to: bypass (everything), acceptEdits, ask
    #[arg(long, value_name = "MODE", value_parser = permission_mode)]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// The only tools it has, with commas between them
    #[arg(long, value_name = "TOOLS")]
    pub(crate) allowed_tools: Option<String>,
    /// Tools it does not have, with commas between them
    #[arg(long, value_name = "TOOLS")]
    pub(crate) disallowed_tools: Option<String>,
    /// What comes after its system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,
    /// Most turns it may take
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// What the work is for: implementation; exploration or validation (then it has no tools that edit files)
    #[arg(long, value_name = "MODE", value_parser = one_of::<ExecutionMode>)]
    pub(crate) mode: Option<ExecutionMode>,
    /// How long a permission question waits before --question-policy decides: 90s, 15m, 2h
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub(crate) question_hold: Option<i64>,
    /// What becomes of a permission question that nobody answered in time: deny, allow, suspend
    #[arg(long, value_name = "POLICY", value_parser = one_of::<QuestionPolicy>)]
    pub(crate) question_policy: Option<QuestionPolicy>,
}

/// One of the modes, by our name or by Claude Code's.
fn permission_mode(text: &str) -> Result<PermissionMode, String> {
    PermissionMode::read(text).ok_or_else(|| format!("must be {}", PermissionMode::WORDS))
}
