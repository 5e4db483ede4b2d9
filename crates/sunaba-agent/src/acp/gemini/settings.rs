//! How it is set up: its environment, its arguments and its settings.

use std::io::Result;
use std::path::Path;

use serde_json::json;

use super::super::command::{Env, added};
use crate::RunContext;
use crate::native::instructions;

/// A command without a word is let run for so long, in seconds.
const SILENCE_SECONDS: u32 = 86_400;
/// Tools that have the vendor work outside, or a person at the terminal.
const LEFT_OUT: [&str; 5] =
    ["google_web_search", "web_fetch", "ask_user", "enter_plan_mode", "exit_plan_mode"];

const SETTINGS: &str = "settings.json";
const SYSTEM_PROMPT: &str = "system.md";
const POLICY: &str = "policy.toml";
/// It asks before every command, also those that it takes for harmless: a rule without a pattern lets them through.
const ASKS_BEFORE_COMMANDS: &str = r#"[[rule]]
toolName = "run_shell_command"
argsPattern = "."
decision = "ask_user"
priority = 999
"#;
/// What it reads in a repository.
const INSTRUCTIONS: [&str; 2] = ["GEMINI.md", "AGENTS.md"];

/// What stands after its command. It asks before whatever changes something, so that what was there before can be
/// seen; whether somebody is asked is ours to say.
pub(in crate::acp) fn arguments(ctx: &RunContext, dir: &Path) -> Vec<String> {
    let policy = dir.join(POLICY).display().to_string();
    ["-m", &ctx.model, "--approval-mode", "default", "--policy", &policy].map(str::to_owned).to_vec()
}

pub(in crate::acp) fn env(ctx: &RunContext, dir: &Path) -> Env {
    let place = |name: &str| dir.join(name).display().to_string();
    let mut env = vec![
        ("GEMINI_CLI_HOME", dir.display().to_string()),
        ("GEMINI_API_KEY", ctx.api_key.expose().to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", ctx.google_base_url.clone()),
        // There is none, and what an image has there does not count.
        ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", place("system.json")),
        // A repository's settings go before ours: they may name another account, another sandbox or tools that need
        // no asking, and whom to report to. Of one that is not trusted it takes none.
        ("GEMINI_CLI_TRUST_WORKSPACE", "false".to_owned()),
        // It would start itself anew with more memory, and a kill of the first leaves the second.
        ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
    ];
    if ctx.system_prompt.is_some() {
        env.push(("GEMINI_SYSTEM_MD", place(SYSTEM_PROMPT)));
    }
    env
}

/// Its settings, and what it is told besides the task.
pub(in crate::acp) fn configure(ctx: &RunContext, dir: &Path) -> Result<()> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        // That file is there for what the repository builds.
        "advanced": {"ignoreLocalEnv": true},
        "general": {
            "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "sessionRetention": {"enabled": false},
        },
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "model": {"disableLoopDetection": true},
        "context": {"fileName": INSTRUCTIONS},
        "tools": {
            "exclude": LEFT_OUT, "sandbox": false,
            "shell": {"enableInteractiveShell": false, "inactivityTimeout": SILENCE_SECONDS},
        },
    });
    let own = dir.join(".gemini");
    std::fs::create_dir_all(&own)?;
    std::fs::write(own.join(SETTINGS), settings.to_string())?;
    std::fs::write(dir.join(POLICY), ASKS_BEFORE_COMMANDS)?;
    if let Some(words) = &ctx.system_prompt {
        std::fs::write(dir.join(SYSTEM_PROMPT), words)?;
    }
    // It does not read them itself where it trusts nothing.
    let of_repository = instructions(&ctx.cwd, &INSTRUCTIONS);
    let words: Vec<_> = added(ctx).map(str::to_owned).into_iter().chain(of_repository).collect();
    std::fs::write(own.join("GEMINI.md"), words.join("\n\n"))
}

/// What stands before a task that it would take for a command of its own.
pub(in crate::acp) fn preamble(ctx: &RunContext) -> Option<String> {
    ctx.prompt.trim_start().starts_with(['/', '$']).then(|| "Your task:".to_owned())
}
