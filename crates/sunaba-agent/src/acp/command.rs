//! How each agent is started: an environment in which it talks to nobody but the model's address.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;

use super::{AcpAgent, AcpConfig, gemini, openhands};
use crate::child::MARK;
use crate::{PermissionMode, RunContext};

/// Beginnings of variables that would tell an agent of another model, account or way than ours.
const NOT_OURS: [&str; 8] = [
    "ANTHROPIC_",
    "CLAUDE",
    "CODEX_",
    "GEMINI_",
    "GOOGLE_",
    "OPENAI_",
    "OPENCODE_",
    "AWS_BEARER_TOKEN_BEDROCK",
];
/// The name under which agents that need one find the key.
const KEY: &str = "SUNABA_MODEL_KEY";
/// What OpenCode is told of a model of which nothing is known.
const CONTEXT_TOKENS: u32 = 200_000;
const OUTPUT_TOKENS: u32 = 32_000;

/// The command, without its pipes.
pub(super) fn command(config: &AcpConfig, ctx: &RunContext, dir: &Path, mark: &str) -> Command {
    let line = config.program.clone().unwrap_or_else(|| config.agent.command_line());
    let mut words = line.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(&ctx.cwd);
    match &config.agent {
        AcpAgent::Gemini => {
            command.args(gemini::arguments(ctx, dir));
        }
        AcpAgent::OpenHands => {
            command.arg(openhands::program(dir));
        }
        AcpAgent::Codex | AcpAgent::OpenCode | AcpAgent::ClaudeAdapter | AcpAgent::Command(_) => {}
    }
    for (name, _) in std::env::vars_os() {
        if NOT_OURS.iter().any(|beginning| name.to_string_lossy().starts_with(beginning)) {
            command.env_remove(name);
        }
    }
    let env = match &config.agent {
        AcpAgent::Codex => codex_env(ctx, dir),
        AcpAgent::OpenCode => opencode_env(ctx, dir),
        AcpAgent::ClaudeAdapter => claude_env(ctx, dir),
        AcpAgent::Gemini => gemini::env(ctx, dir),
        AcpAgent::OpenHands => openhands::env(ctx, dir),
        AcpAgent::Command(_) => plain_env(ctx),
    };
    command
        .envs(env)
        .env(MARK, mark)
        .envs(config.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    command
}

/// What an agent finds in its own directory.
pub(super) fn configure(agent: &AcpAgent, ctx: &RunContext, dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    match agent {
        AcpAgent::Codex => std::fs::write(dir.join("config.toml"), codex_config(ctx)),
        AcpAgent::OpenCode => {
            no_plugins(&dir.join("config/opencode"), agent.preset().known.version)?;
            match instructions(ctx) {
                Some(words) => std::fs::write(dir.join(OPENCODE_INSTRUCTIONS), words),
                None => Ok(()),
            }
        }
        AcpAgent::Gemini => gemini::configure(ctx, dir),
        AcpAgent::OpenHands => openhands::configure(dir),
        AcpAgent::ClaudeAdapter | AcpAgent::Command(_) => Ok(()),
    }
}

/// What `session/new` is told besides the place.
pub(super) fn session_meta(agent: &AcpAgent, ctx: &RunContext) -> Option<Value> {
    let prompt = match (agent, &ctx.system_prompt, added(ctx)) {
        (AcpAgent::ClaudeAdapter, Some(_), _) => Value::from(instructions(ctx)?),
        (AcpAgent::ClaudeAdapter, None, Some(more)) => json!({ "append": more }),
        _ => return None,
    };
    Some(json!({ "systemPrompt": prompt }))
}

/// What stands before the task where an agent knows no other place for it.
pub(super) fn preamble(agent: &AcpAgent, ctx: &RunContext) -> Option<String> {
    match agent {
        AcpAgent::Command(_) => instructions(ctx),
        AcpAgent::Gemini => gemini::preamble(ctx),
        AcpAgent::Codex | AcpAgent::OpenCode | AcpAgent::ClaudeAdapter | AcpAgent::OpenHands => None,
    }
}

/// What is to be added to the agent's own instructions.
pub(super) fn added(ctx: &RunContext) -> Option<&str> {
    ctx.system_prompt_append.as_deref().filter(|words| !words.trim().is_empty())
}

/// Everything that the agent is to be told besides its task.
fn instructions(ctx: &RunContext) -> Option<String> {
    let words: Vec<_> = [ctx.system_prompt.as_deref(), added(ctx)].into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("\n\n"))
}

/// Variables and their values.
pub(super) type Env = Vec<(&'static str, String)>;

fn codex_env(ctx: &RunContext, dir: &Path) -> Env {
    vec![("CODEX_HOME", dir.display().to_string()), (KEY, ctx.api_key.expose().to_owned())]
}

/// A string as TOML writes it, which is as JSON does.
fn quoted(words: &str) -> String {
    Value::from(words).to_string()
}

/// Its own sandbox is off, because it is in one. Commands are those that end before the model goes on: of the others it
/// does not tell what they wrote first, and an interrupt does not end them.
fn codex_config(ctx: &RunContext) -> String {
    let policy = match ctx.permission_mode {
        PermissionMode::Bypass => "never",
        PermissionMode::AcceptEdits | PermissionMode::Ask => "untrusted",
    };
    let instructions = instructions(ctx)
        .map(|words| format!("developer_instructions = {}\n", quoted(&words)))
        .unwrap_or_default();
    format!(
        r#"model = {model}
model_provider = "sunaba"
approval_policy = "{policy}"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
web_search = "disabled"
{instructions}
[model_providers.sunaba]
name = "Sunaba"
base_url = {address}
wire_api = "responses"
env_key = "{KEY}"

[features]
apps = false
plugins = false
remote_plugin = false
shell_snapshot = false
unified_exec = false

[analytics]
enabled = false

[otel]
exporter = "none"
"#,
        model = quoted(&ctx.model),
        address = quoted(&ctx.openai_base_url),
    )
}

const OPENCODE_INSTRUCTIONS: &str = "instructions.md";

/// OpenCode fetches a package for plugins at every start, unless it seems to be there. There are no plugins here.
fn no_plugins(dir: &Path, version: &str) -> std::io::Result<()> {
    const PACKAGE: &str = "@opencode-ai/plugin";
    let inside = format!("node_modules/{PACKAGE}");
    let wanted = json!({ "dependencies": { PACKAGE: version } });
    let locked = json!({
        "lockfileVersion": 3,
        "requires": true,
        "packages": {"": wanted, &*inside: {"version": version}},
    });
    std::fs::create_dir_all(dir.join(&inside))?;
    std::fs::write(dir.join("package.json"), wanted.to_string())?;
    std::fs::write(dir.join("package-lock.json"), locked.to_string())?;
    let package = json!({"name": PACKAGE, "version": version});
    std::fs::write(dir.join(inside).join("package.json"), package.to_string())
}

fn opencode_env(ctx: &RunContext, dir: &Path) -> Env {
    let place = |name: &str| dir.join(name).display().to_string();
    // It asks before every edit, so that what was there before can be seen; whether somebody is asked is ours to say.
    let permission = match ctx.permission_mode {
        PermissionMode::Bypass => json!({"*": "allow", "edit": "ask"}),
        PermissionMode::AcceptEdits | PermissionMode::Ask => {
            json!({"*": "allow", "edit": "ask", "bash": "ask", "webfetch": "ask", "external_directory": "ask"})
        }
    };
    let limit = json!({"context": CONTEXT_TOKENS, "output": OUTPUT_TOKENS});
    let mut config = json!({
        "model": format!("sunaba/{}", ctx.model),
        "small_model": format!("sunaba/{}", ctx.model),
        "enabled_providers": ["sunaba"],
        "provider": {"sunaba": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Sunaba",
            "options": {"baseURL": ctx.openai_base_url, "apiKey": ctx.api_key.expose()},
            "models": {&*ctx.model: {"name": ctx.model, "tool_call": true, "limit": limit}},
        }},
        "agent": {"title": {"disable": true}},
        "permission": permission,
        "autoupdate": false,
        "share": "disabled",
    });
    if instructions(ctx).is_some() {
        config["instructions"] = json!([place(OPENCODE_INSTRUCTIONS)]);
    }
    let mut env = vec![("OPENCODE_CONFIG_CONTENT", config.to_string())];
    let places = ["DATA", "CONFIG", "STATE", "CACHE"];
    let names = ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];
    env.extend(names.into_iter().zip(places).map(|(name, kind)| (name, place(&kind.to_ascii_lowercase()))));
    let off = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_SHARE",
    ];
    env.extend(off.map(|name| (name, "1".to_owned())));
    env
}

fn claude_env(ctx: &RunContext, dir: &Path) -> Env {
    let on = |name| (name, "1".to_owned());
    let model = |name| (name, ctx.model.clone());
    vec![
        ("CLAUDE_CONFIG_DIR", dir.display().to_string()),
        ("ANTHROPIC_BASE_URL", ctx.base_url.clone()),
        ("ANTHROPIC_API_KEY", ctx.api_key.expose().to_owned()),
        model("ANTHROPIC_MODEL"),
        model("ANTHROPIC_SMALL_FAST_MODEL"),
        model("ANTHROPIC_DEFAULT_OPUS_MODEL"),
        model("ANTHROPIC_DEFAULT_SONNET_MODEL"),
        model("ANTHROPIC_DEFAULT_HAIKU_MODEL"),
        model("CLAUDE_CODE_SUBAGENT_MODEL"),
        on("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"),
        on("DISABLE_AUTOUPDATER"),
        on("DISABLE_ERROR_REPORTING"),
        on("DISABLE_TELEMETRY"),
        on("IS_SANDBOX"),
    ]
}

/// An agent of which nothing is known finds the model where most look for it.
fn plain_env(ctx: &RunContext) -> Env {
    let key = ctx.api_key.expose().to_owned();
    vec![
        ("ANTHROPIC_BASE_URL", ctx.base_url.clone()),
        ("ANTHROPIC_API_KEY", key.clone()),
        ("ANTHROPIC_MODEL", ctx.model.clone()),
        ("OPENAI_BASE_URL", ctx.openai_base_url.clone()),
        ("OPENAI_API_KEY", key.clone()),
        ("OPENAI_MODEL", ctx.model.clone()),
        ("GOOGLE_GEMINI_BASE_URL", ctx.google_base_url.clone()),
        ("GEMINI_API_KEY", key),
        ("GEMINI_MODEL", ctx.model.clone()),
    ]
}
