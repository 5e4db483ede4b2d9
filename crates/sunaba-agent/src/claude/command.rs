//! How the CLI is started: its arguments, and an environment in which it talks to nobody but the model's address.

use std::ffi::OsString;
use std::path::Path;

use tokio::process::Command;

use super::{ClaudeConfig, store};
use crate::{PermissionMode, RunContext};

/// Tools that ask a person at a terminal, where there is none.
const NEED_A_TERMINAL: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];
/// Everything by which the CLI would ask for updates, report, or take another way to a model.
const SILENT: [&str; 7] = [
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_BUG_COMMAND",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
    "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY",
    "IS_SANDBOX",
];
/// Every name under which it looks for a model, so that each of its calls is for the one that was chosen.
const MODELS: [&str; 6] = [
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
];

/// Which conversation a process takes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TakeUp {
    New,
    Same,
    Fork { from: String },
}

/// The command, without its pipes.
pub(super) fn command(
    config: &ClaudeConfig,
    ctx: &RunContext,
    take_up: &TakeUp,
    mark: (&str, &str),
) -> Command {
    let mut command = Command::new(&config.program);
    command.args(arguments(ctx, take_up)).current_dir(&ctx.cwd);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_the_clis_own(name)) {
        command.env_remove(name);
    }
    for name in SILENT {
        command.env(name, "1");
    }
    for name in MODELS {
        command.env(name, &ctx.model);
    }
    command
        .env("ANTHROPIC_BASE_URL", &ctx.base_url)
        .env("ANTHROPIC_API_KEY", ctx.api_key.expose())
        .env("CLAUDE_CONFIG_DIR", store::config_dir(&ctx.home))
        .env(mark.0, mark.1)
        .envs(config.env.iter().map(|(name, value)| (name, value)));
    command
}

/// What would tell the CLI of another model, account or way than ours.
fn is_the_clis_own(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    ["ANTHROPIC_", "CLAUDE", "AWS_BEARER_TOKEN_BEDROCK", "VERTEX_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn arguments(ctx: &RunContext, take_up: &TakeUp) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--print",
        "--verbose",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--replay-user-messages",
        "--include-partial-messages",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut add = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
    add("--model", &ctx.model);
    add("--max-turns", &ctx.max_turns.to_string());
    match take_up {
        TakeUp::New => add("--session-id", &ctx.session_id),
        TakeUp::Same => add("--resume", &ctx.session_id),
        TakeUp::Fork { from } => {
            add("--resume", from);
            add("--session-id", &ctx.session_id);
        }
    }
    match ctx.permission_mode {
        PermissionMode::Bypass => add("--permission-mode", "bypassPermissions"),
        PermissionMode::AcceptEdits => add("--permission-mode", "acceptEdits"),
        PermissionMode::Ask => add("--permission-mode", "default"),
    }
    if ctx.permission_mode != PermissionMode::Bypass {
        add("--permission-prompt-tool", "stdio");
        add("--disallowedTools", &NEED_A_TERMINAL.join(","));
    }
    if let Some(words) = &ctx.system_prompt {
        add("--system-prompt", words);
    }
    if let Some(words) = ctx.system_prompt_append.as_deref().filter(|words| !words.trim().is_empty()) {
        add("--append-system-prompt", words);
    }
    if matches!(take_up, TakeUp::Fork { .. }) {
        arguments.push("--fork-session".to_owned());
    }
    arguments
}

/// What to do about a CLI that is not there.
pub(super) fn how_to_install(program: &Path) -> String {
    format!(
        "Claude Code is not installed ({} is not there); install it where sandboxes see it: npm install -g \
@anthropic-ai/claude-code@{}",
        program.display(),
        super::TESTED_VERSION
    )
}
