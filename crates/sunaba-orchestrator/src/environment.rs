//! What programs find in a sandbox's environment. Nothing in it is secret but the
//! sandbox's own token, which opens only this sandbox.

use std::collections::BTreeMap;

use sunaba_nodes::wire::Left;
use sunaba_types::Sandbox;
use sunaba_types::execution::variables;
use sunaba_types::shim::{BRIDGE_ADDRESS, HOME_INSIDE, PATH_INSIDE, PROXY_ADDRESS, WORKSPACE_INSIDE};

use crate::Settings;
use crate::work::Work;

/// Where the mirror's objects appear inside, read-only.
pub(crate) const MIRROR_OBJECTS_INSIDE: &str = "/run/sunaba-mirror/objects";
/// Where the gateway serves git inside.
pub(crate) const GIT_REMOTE_INSIDE: &str = "http://127.0.0.1:3129/gateway/git";

type Env = BTreeMap<String, String>;

/// What one worker needs to be told besides its work.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    pub(crate) branch: &'a str,
    /// What is there of the files of the attempt before, if that ended in the middle of its work.
    pub(crate) left: Option<Left>,
    pub(crate) token: &'a str,
    pub(crate) toolchains: &'a [String],
    /// How the repository tells whether the work is good.
    pub(crate) check: Option<&'a str>,
    /// Where the tunnel ends, for a sandbox on another machine.
    pub(crate) tunnel_url: Option<String>,
}

/// The environment of `sunaba-worker work`. What the caller asked for comes first: ours wins.
pub(crate) fn worker_env(settings: &Settings, sandbox: &Sandbox, work: &Work, told: &Told<'_>) -> Env {
    let mut env = sandbox.terms.env.clone();
    env.extend(everywhere(told.toolchains));
    let base = format!("http://{BRIDGE_ADDRESS}");
    let token = told.token;
    let mut set = |name: &str, value: &str| drop(env.insert(name.to_owned(), value.to_owned()));
    set("SANDBOX_ID", sandbox.id.as_str());
    set("TASK_ID", work.task.id.as_str());
    set("TICKET_ID", work.ticket.id.as_str());
    set("TICKET_TITLE", &work.ticket.title);
    set("TICKET_DESCRIPTION", &work.ticket.description);
    set("TASK_DESCRIPTION", &work.task.description);
    set("PROJECT_ID", work.project.id.as_str());
    set("AGENT_ID", &format!("{}/{}", sandbox.runtime, sandbox.model));
    set("BRANCH_NAME", told.branch);
    set("INITIAL_PROMPT", &prompt(sandbox, told.left));
    set("SANDBOX_RUNTIME", &sandbox.runtime);
    set("MODEL", &sandbox.model);
    set("SANDBOX_TOKEN", token);
    set("CALLBACK_URL", &base);
    set("MCP_SERVER_URL", &base);
    set("ANTHROPIC_BASE_URL", &format!("{base}/gateway/anthropic"));
    set("ANTHROPIC_API_KEY", token);
    set("OPENAI_BASE_URL", &format!("{base}/gateway/openai/v1"));
    set("OPENAI_API_KEY", token);
    set("GOOGLE_GEMINI_BASE_URL", &format!("{base}/gateway/google"));
    set("GEMINI_API_KEY", token);
    set("HEARTBEAT_INTERVAL", &settings.heartbeat_seconds.to_string());
    set("MAX_TURNS", &settings.max_turns.to_string());
    for (name, value) in variables::of(&sandbox.terms.execution_config) {
        set(name, &value);
    }
    let follow_up = settings.follow_up_of(sandbox).as_secs_f64() / 60.0;
    set("FOLLOW_UP_MINUTES", &follow_up.to_string());
    if let Some(resume) = &sandbox.terms.resume {
        set("RESUME_SESSION_ID", &resume.session_id);
        set("FORK_SESSION", if resume.fork { "true" } else { "false" });
        if let Some(call) = &resume.until {
            set("SUNABA_RESUME_UNTIL", call);
        }
    }
    if let Some(message) = &sandbox.terms.prompt_message {
        set("SUNABA_PROMPT_MESSAGE", message.as_str());
    }
    if let Some(budget) = sandbox.terms.budget_usd {
        set("MAX_BUDGET_USD", &budget.to_string());
    }
    if let Some(seconds) = sandbox.terms.timeout_seconds {
        set("MAX_DURATION_SECONDS", &seconds.to_string());
    }
    if let Some(check) = told.check {
        set("CHECK_COMMAND", check);
    }
    if let Some(url) = &told.tunnel_url {
        set("SUNABA_TUNNEL_URL", url);
        if let Some(authority) = &settings.public_url_ca {
            set("SUNABA_TUNNEL_CA", authority);
        }
        set("CLONE_URL", &format!("{GIT_REMOTE_INSIDE}/{}", work.project.id));
    }
    for who in ["AUTHOR", "COMMITTER"] {
        set(&format!("GIT_{who}_NAME"), "Sunaba agent");
        set(&format!("GIT_{who}_EMAIL"), "agent@sunaba.invalid");
    }
    // Git finds its credential here, so that none is ever written to a file; the gateway alone is shown it.
    let bearer = format!("Authorization: Bearer {token}");
    let header = format!("http.{base}/.extraHeader");
    let git = [("safe.directory", "*"), (&*header, &*bearer), ("core.hooksPath", "/dev/null")];
    set("GIT_CONFIG_COUNT", &git.len().to_string());
    for (index, (key, value)) in git.iter().enumerate() {
        set(&format!("GIT_CONFIG_KEY_{index}"), key);
        set(&format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    env
}

/// What the agent is told, and what it finds of the work of the attempt before.
fn prompt(sandbox: &Sandbox, left: Option<Left>) -> String {
    let found = match left {
        None => return sandbox.prompt.clone(),
        Some(Left::Whole) => {
            "An earlier sandbox of this task ended in the middle of the work. The files are as they were at the last \
             look at them, mostly after its last tool call; what it had not pushed is in a commit on the branch. Files that git ignores, and programs that \
             ran, are gone."
        }
        Some(Left::Pushed) => {
            "An earlier sandbox of this task ended in the middle of the work. The files are those that it had pushed to \
             the branch; what it had not pushed is gone."
        }
    };
    format!("{}\n\n[{found}]", sandbox.prompt)
}

/// The environment of a setup command: nothing of any sandbox, because what it makes is laid under many.
pub(crate) fn setup_env(toolchains: &[String]) -> Env {
    let mut env = everywhere(toolchains);
    env.insert("CI".to_owned(), "true".to_owned());
    env.insert("GIT_CONFIG_COUNT".to_owned(), "1".to_owned());
    env.insert("GIT_CONFIG_KEY_0".to_owned(), "safe.directory".to_owned());
    env.insert("GIT_CONFIG_VALUE_0".to_owned(), "*".to_owned());
    env
}

/// What every program inside finds.
fn everywhere(toolchains: &[String]) -> Env {
    let proxy = format!("http://{PROXY_ADDRESS}");
    let mut path: String = toolchains.iter().map(|toolchain| format!("{toolchain}/bin:")).collect();
    path.push_str(PATH_INSIDE);
    let pairs = [
        ("CWD", WORKSPACE_INSIDE),
        ("HOME", HOME_INSIDE),
        ("PATH", &*path),
        ("LANG", "C.UTF-8"),
        ("IS_SANDBOX", "1"),
        ("HTTP_PROXY", &*proxy),
        ("HTTPS_PROXY", &*proxy),
        ("http_proxy", &*proxy),
        ("https_proxy", &*proxy),
        ("NO_PROXY", "127.0.0.1,localhost"),
        ("no_proxy", "127.0.0.1,localhost"),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
