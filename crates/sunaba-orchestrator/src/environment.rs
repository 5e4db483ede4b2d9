//! What a worker finds in its environment. Nothing in it is secret but the
//! sandbox's own token, which opens only this sandbox.

use std::collections::BTreeMap;

use sunaba_types::Sandbox;
use sunaba_types::shim::{BRIDGE_ADDRESS, HOME_INSIDE, WORKSPACE_INSIDE};

use crate::Settings;
use crate::bring_up::Work;

/// Where the mirror's objects appear inside, read-only.
pub(crate) const MIRROR_OBJECTS_INSIDE: &str = "/run/sunaba-mirror/objects";
/// Where the gateway serves git inside.
pub(crate) const GIT_REMOTE_INSIDE: &str = "http://127.0.0.1:3129/gateway/git";

/// The environment of `sunaba-worker work`.
pub(crate) fn worker_env(
    settings: &Settings,
    sandbox: &Sandbox,
    work: &Work,
    branch: &str,
    token: &str,
) -> BTreeMap<String, String> {
    let base = format!("http://{BRIDGE_ADDRESS}");
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: &str| drop(env.insert(name.to_owned(), value.to_owned()));
    set("SANDBOX_ID", sandbox.id.as_str());
    set("TASK_ID", work.task.id.as_str());
    set("TICKET_ID", work.ticket.id.as_str());
    set("TICKET_TITLE", &work.ticket.title);
    set("TICKET_DESCRIPTION", &work.ticket.description);
    set("TASK_DESCRIPTION", &work.task.description);
    set("PROJECT_ID", work.project.id.as_str());
    set("AGENT_ID", &format!("{}/{}", sandbox.runtime, sandbox.model));
    set("BRANCH_NAME", branch);
    set("INITIAL_PROMPT", &sandbox.prompt);
    set("MODEL", &sandbox.model);
    set("SANDBOX_TOKEN", token);
    set("CALLBACK_URL", &base);
    set("MCP_SERVER_URL", &base);
    set("ANTHROPIC_BASE_URL", &format!("{base}/gateway/anthropic"));
    set("ANTHROPIC_API_KEY", token);
    set("HEARTBEAT_INTERVAL", &settings.heartbeat_seconds.to_string());
    set("MAX_TURNS", &settings.max_turns.to_string());
    set("CWD", WORKSPACE_INSIDE);
    set("HOME", HOME_INSIDE);
    set("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    set("LANG", "C.UTF-8");
    set("IS_SANDBOX", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        set(&format!("GIT_{who}_NAME"), "Sunaba agent");
        set(&format!("GIT_{who}_EMAIL"), "agent@sunaba.invalid");
    }
    // Git finds its credential here, so that none is ever written to a file.
    let bearer = format!("Authorization: Bearer {token}");
    let git = [("safe.directory", "*"), ("http.extraHeader", &bearer), ("core.hooksPath", "/dev/null")];
    set("GIT_CONFIG_COUNT", &git.len().to_string());
    for (index, (key, value)) in git.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    env
}
