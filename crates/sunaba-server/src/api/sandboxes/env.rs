//! Variables that a call adds to a sandbox's environment: which may be, and why not.
//!
//! They enter the sandbox and are no place for secrets; what the worker itself needs cannot be replaced.

use std::collections::BTreeMap;

use sunaba_types::ExecutionConfig;
use sunaba_types::execution::variables;

use crate::extract::Fields;

const VARIABLES_MAX: usize = 100;
const NAME_CHARS: usize = 200;
/// Names and values together. The kernel bounds one at 128 KiB, and the prompt travels beside them.
const TOTAL_BYTES: usize = 64 * 1024;

/// What the server sets for the worker, besides everything with a prefix below. Those that say how the agent works
/// are taken out of the environment and read ([`take_execution`]); in another case they are nobody's.
const OURS: &[&str] = &[
    "AGENT_ID",
    "AGENT_TYPE",
    "ALLOWED_TOOLS",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "BRANCH_NAME",
    "CALLBACK_URL",
    "CHECK_COMMAND",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLONE_URL",
    "CONVERSATION_CONTEXT",
    "CWD",
    "DISALLOWED_TOOLS",
    "ENABLE_SKILLS",
    "ENABLE_SUBAGENTS",
    "EXECUTION_MODE",
    "FOLLOW_UP_MINUTES",
    "FORK_SESSION",
    "GEMINI_API_KEY",
    "GH_TOKEN",
    "GITHUB_REPO",
    "GITHUB_TOKEN",
    "GOOGLE_GEMINI_BASE_URL",
    "HEARTBEAT_INTERVAL",
    "HOME",
    "INITIAL_PROMPT",
    "IS_SANDBOX",
    "LANG",
    "MAX_BUDGET_USD",
    "MAX_DURATION_SECONDS",
    "MAX_TURNS",
    "MCP_SERVER_URL",
    "MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "PATH",
    "PERMISSION_MODE",
    "PHASE_CONTEXT_B64",
    "POLL_INTERVAL",
    "PROJECT_ID",
    "RESUME_SESSION_ID",
    "SANDBOX_ID",
    "SANDBOX_TOKEN",
    "SESSION_TRANSCRIPT_B64",
    "SPEC_ID",
    "SPEC_PHASE",
    "SYSTEM_PROMPT",
    "SYSTEM_PROMPT_APPEND",
    "TASK_DATA_BASE64",
    "TASK_DESCRIPTION",
    "TASK_ID",
    "TICKET_DESCRIPTION",
    "TICKET_ID",
    "TICKET_TITLE",
];
/// `GIT_` carries the sandbox's credential for git, `LD_` would be loaded into the worker's own programs.
const OUR_PREFIXES: [&str; 3] = ["GIT_", "LD_", "SUNABA_"];

/// Reads the field `env`.
pub(super) fn read(fields: &mut Fields<'_>) -> BTreeMap<String, String> {
    let Some(given) = fields.optional::<BTreeMap<String, String>>("env", "an object of strings") else {
        return BTreeMap::new();
    };
    if given.len() > VARIABLES_MAX {
        fields.fault("env", format!("must hold at most {VARIABLES_MAX} variables, holds {}", given.len()));
        return BTreeMap::new();
    }
    let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > TOTAL_BYTES {
        fields.fault("env", format!("must have at most {TOTAL_BYTES} bytes in all, has {bytes}"));
        return BTreeMap::new();
    }
    for (name, value) in &given {
        if let Some(why) = fault(name, value) {
            let shown: String = name.chars().take(NAME_CHARS).collect();
            fields.fault(&format!("env.{shown}"), why);
        }
    }
    given
}

/// Takes out the variables that say how the agent works, and reads them.
pub(super) fn take_execution(fields: &mut Fields<'_>, env: &mut BTreeMap<String, String>) -> ExecutionConfig {
    let said: BTreeMap<&str, String> =
        variables::NAMES.into_iter().filter_map(|name| Some((name, env.remove(name)?))).collect();
    let config = match variables::read(&|name| said.get(name).cloned()) {
        Ok(config) => config,
        Err(wrong) => {
            fields.fault(&format!("env.{}", wrong.name), format!("must be {}", wrong.why));
            return ExecutionConfig::default();
        }
    };
    for (key, why) in config.faults() {
        fields.fault(&format!("env.{}", key.to_ascii_uppercase()), why);
    }
    config
}

/// Why a variable cannot be set; its value is never part of the words.
fn fault(name: &str, value: &str) -> Option<&'static str> {
    let first_ok = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let rest_ok = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !first_ok || !rest_ok || name.len() > NAME_CHARS {
        return Some(
            "a name begins with a letter or _, holds letters, digits and _ only, and has at most 200 characters",
        );
    }
    if value.contains('\0') {
        return Some("cannot contain the NUL character");
    }
    (is_ours(name) && !variables::NAMES.contains(&name)).then_some(
        "is set by the server and cannot be replaced; keys and tokens belong into the project's secrets",
    )
}

/// Whether the server sets it, in whatever case it is written.
fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    OURS.contains(&name.as_str())
        || name.ends_with("_PROXY")
        || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use sunaba_types::PermissionMode;

    use super::*;

    #[test]
    fn what_says_how_the_agent_works_is_taken_out_and_read() {
        let take = |env: serde_json::Value| {
            let body = serde_json::json!({ "env": env }).to_string();
            let mut fields = Fields::of_body(body.as_bytes()).unwrap();
            let mut env = read(&mut fields);
            let config = take_execution(&mut fields, &mut env);
            fields.finish().map(|()| (env, config)).map_err(|error| error.detail())
        };
        let given = serde_json::json!({"PERMISSION_MODE": "default", "MAX_TURNS": "3", "FOO": "bar"});
        let (env, config) = take(given).unwrap();
        assert_eq!(env.into_keys().collect::<Vec<_>>(), ["FOO"]);
        assert_eq!((config.permission_mode, config.max_turns), (Some(PermissionMode::Ask), Some(3)));
        for (name, value) in [("PERMISSION_MODE", "plan"), ("MAX_TURNS", "0"), ("ALLOWED_TOOLS", "a\nb")] {
            let said = take(serde_json::json!({ name: value })).unwrap_err();
            assert!(said.contains(&format!("env.{name} must be")), "{said}");
        }
    }

    fn faults(body: &str) -> String {
        let mut fields = Fields::of_body(body.as_bytes()).unwrap();
        read(&mut fields);
        fields.finish().map_or_else(|error| error.detail(), |()| String::new())
    }

    #[test]
    fn what_the_server_sets_and_what_is_no_name_is_refused() {
        for name in [
            "SANDBOX_TOKEN",
            "ANTHROPIC_API_KEY",
            "github_token",
            "https_proxy",
            "NO_PROXY",
            "GIT_CONFIG_COUNT",
            "PATH",
            "LD_PRELOAD",
            "SUNABA_TUNNEL_URL",
            "MCP_SERVER_URL",
            "",
            "1A",
            "A-B",
            "A B",
            "A=B",
            "Ä",
        ] {
            let said = faults(&serde_json::json!({"env": {name: "the-value"}}).to_string());
            assert!(said.contains("env."), "{name}: {said}");
            assert!(!said.contains("the-value"), "{said}");
        }
        assert_eq!(faults(r#"{"env": {"FOO": "bar", "_x9": "", "MY_TOKEN_COUNT": "1"}}"#), "");
        assert_eq!(
            faults(r#"{"env": {"CONTINUOUS_MODE": "true", "MAX_ITERATIONS": "3"}}"#),
            "",
            "a caller's choice"
        );
        for bad in [r#"{"env": []}"#, r#"{"env": {"A": 1}}"#, r#"{"env": {"A": "\u0000"}}"#] {
            assert!(!faults(bad).is_empty(), "{bad}");
        }
        for name in variables::NAMES {
            let said = faults(&serde_json::json!({"env": {name.to_ascii_lowercase(): "x"}}).to_string());
            assert!(said.contains("env."), "{name}: {said}");
        }
        let many: BTreeMap<String, &str> = (0..101).map(|n| (format!("V{n}"), "x")).collect();
        assert!(faults(&serde_json::json!({"env": many}).to_string()).contains("at most 100 variables"));
        let long = serde_json::json!({"env": {"A": "x".repeat(65_536)}});
        assert!(faults(&long.to_string()).contains("at most 65536 bytes"));
    }
}
