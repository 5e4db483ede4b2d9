//! Variables that a call adds to a sandbox's environment: which may be, and why not.
//!
//! They enter the sandbox and are no place for secrets; what the worker itself needs cannot be replaced.

use std::collections::BTreeMap;

use crate::extract::Fields;

const VARIABLES_MAX: usize = 100;
const NAME_CHARS: usize = 200;
/// Names and values together. The kernel bounds one at 128 KiB, and the prompt travels beside them.
const TOTAL_BYTES: usize = 64 * 1024;

/// What the server sets for the worker, besides everything with a prefix below.
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
    "COMPLETION_SIGNAL",
    "COMPLETION_THRESHOLD",
    "CONTINUOUS_MODE",
    "CONVERSATION_CONTEXT",
    "CWD",
    "DISALLOWED_TOOLS",
    "ENABLE_SKILLS",
    "ENABLE_SUBAGENTS",
    "EXECUTION_MODE",
    "FORK_SESSION",
    "GH_TOKEN",
    "GITHUB_REPO",
    "GITHUB_TOKEN",
    "HEARTBEAT_INTERVAL",
    "HOME",
    "INITIAL_PROMPT",
    "IS_SANDBOX",
    "LANG",
    "MAX_BUDGET_USD",
    "MAX_CONSECUTIVE_ERRORS",
    "MAX_DURATION_SECONDS",
    "MAX_ITERATIONS",
    "MAX_TOTAL_COST_USD",
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
    "REQUIRE_CLEAN_GIT",
    "REQUIRE_CODE_PUSHED",
    "REQUIRE_PR_CREATED",
    "REQUIRE_TESTS",
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
    is_ours(name).then_some(
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
    use super::*;

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
        for bad in [r#"{"env": []}"#, r#"{"env": {"A": 1}}"#, r#"{"env": {"A": "\u0000"}}"#] {
            assert!(!faults(bad).is_empty(), "{bad}");
        }
        let many: BTreeMap<String, &str> = (0..101).map(|n| (format!("V{n}"), "x")).collect();
        assert!(faults(&serde_json::json!({"env": many}).to_string()).contains("at most 100 variables"));
        let long = serde_json::json!({"env": {"A": "x".repeat(65_536)}});
        assert!(faults(&long.to_string()).contains("at most 65536 bytes"));
    }
}
