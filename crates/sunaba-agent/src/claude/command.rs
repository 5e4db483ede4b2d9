//! How the CLI is started: its arguments, and an environment in which it talks to nobody but the model's address.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Map, Value, json};
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

/// Says that the way to the model, and what is shown there, are no matter of settings files: the repository has one,
/// and what it says about the environment counts for more than the environment itself.
const OURS: &str = "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST";
/// What such a file is not to switch on: reports to an address of its own choice, and modes without `CLAUDE.md`.
const OFF: [&str; 3] = ["CLAUDE_CODE_ENABLE_TELEMETRY", "CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"];

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
    command.args(arguments(config, ctx, take_up)).current_dir(&ctx.cwd);
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
        .env(OURS, "1")
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

fn arguments(config: &ClaudeConfig, ctx: &RunContext, take_up: &TakeUp) -> Vec<String> {
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
    add("--settings", &settings(ctx).to_string());
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
    let mut disallowed = config.tools.withheld();
    if ctx.permission_mode != PermissionMode::Bypass {
        add("--permission-prompt-tool", "stdio");
        disallowed.extend(NEED_A_TERMINAL.map(str::to_owned));
    }
    if !disallowed.is_empty() {
        add("--disallowedTools", &disallowed.join(","));
    }
    if let Some(only) = config.tools.only() {
        add("--tools", &only.join(","));
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

/// Settings that win over those of the repository.
fn settings(ctx: &RunContext) -> Value {
    let off = OFF.iter().map(|name| (*name, ""));
    let silent = SILENT.iter().map(|name| (*name, "1"));
    let models = MODELS.iter().map(|name| (*name, ctx.model.as_str()));
    let env: Map<String, Value> = off
        .chain(silent)
        .chain(models)
        .chain([("ANTHROPIC_BASE_URL", ctx.base_url.as_str())])
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    json!({ "env": env })
}

/// What to do about a CLI that is not there.
pub(super) fn how_to_install(program: &Path) -> String {
    sunaba_types::agents::CLAUDE.not_installed(&program.display().to_string())
}
