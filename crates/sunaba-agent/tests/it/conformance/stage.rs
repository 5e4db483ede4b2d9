//! What the cases have in common: a runtime by its kind, and commands that wait for a sign.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sunaba_agent::{
    AcpAgent, AcpConfig, AcpRuntime, Answer, Asks, ClaudeConfig, ClaudeRuntime, NativeConfig, NativeRuntime,
    PermissionMode, Question, RetryPolicy, Runtime,
};
use sunaba_types::agents::{self, KnownAgent, Origin};

use crate::fake_model::Act;
use crate::harness::{Harness, Setup};
use crate::place::own_place;

/// Time for a file to appear.
const FILE_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    Claude,
    Codex,
    OpenCode,
    ClaudeAdapter,
    Gemini,
    OpenHands,
}

impl Kind {
    pub(crate) fn runtime(self) -> Box<dyn Runtime> {
        match self {
            Self::Native => {
                let retry = RetryPolicy { base_delay: Duration::from_millis(5), ..RetryPolicy::default() };
                Box::new(NativeRuntime::new(NativeConfig { retry, ..NativeConfig::default() }))
            }
            Self::Claude => Box::new(ClaudeRuntime::new(claude_config())),
            Self::Codex | Self::OpenCode | Self::ClaudeAdapter | Self::Gemini | Self::OpenHands => {
                Box::new(AcpRuntime::new(self.acp_config()))
            }
        }
    }

    /// A helper that it has by itself.
    pub(crate) fn helper(self) -> &'static str {
        match self {
            Self::Native => "architect",
            Self::Claude | Self::ClaudeAdapter | Self::OpenHands => "general-purpose",
            Self::Codex | Self::OpenCode | Self::Gemini => "general",
        }
    }

    /// A model that the agent knows: it offers others less.
    fn model(self) -> &'static str {
        match self {
            Self::Codex => "gpt-5.4",
            Self::Gemini => "gemini-2.5-pro",
            Self::Native | Self::Claude | Self::OpenCode | Self::ClaudeAdapter | Self::OpenHands => "fake",
        }
    }

    /// OpenAI's protocols and Google's do not tell what was written to a cache.
    pub(crate) fn hears_of_cache_writes(self) -> bool {
        !matches!(self, Self::Codex | Self::OpenCode | Self::Gemini)
    }

    /// Model calls that it may have begun before it is seen that no more are allowed: the protocol tells of answers only.
    pub(crate) fn calls_beyond(self) -> usize {
        match self {
            Self::Native | Self::Claude => 0,
            Self::Codex | Self::ClaudeAdapter | Self::Gemini | Self::OpenHands => 1,
            // It may be a call further by the time it hears that it is enough.
            Self::OpenCode => 2,
        }
    }

    /// Programs that run at the same time: fewer of one that needs a processor for itself to start.
    pub(crate) fn at_once(self) -> usize {
        if self == Self::OpenHands { 2 } else { 3 }
    }

    /// What is known of it.
    pub(crate) fn known(self) -> KnownAgent {
        match self {
            Self::Native => agents::NATIVE,
            Self::Claude => agents::CLAUDE,
            Self::Codex => agents::CODEX,
            Self::OpenCode => agents::OPENCODE,
            Self::ClaudeAdapter => agents::CLAUDE_ADAPTER,
            Self::Gemini => agents::GEMINI,
            Self::OpenHands => agents::OPENHANDS,
        }
    }

    /// The agent that `scripts/setup` installs; its home is never the developer's.
    pub(crate) fn acp_config(self) -> AcpConfig {
        let machine = machine();
        let (agent, program) = match self {
            Self::Codex => {
                (AcpAgent::Codex, format!("@zed-industries/codex-acp-linux-{machine}/bin/codex-acp"))
            }
            Self::OpenCode => (AcpAgent::OpenCode, format!("opencode-linux-{machine}/bin/opencode")),
            Self::ClaudeAdapter => {
                (AcpAgent::ClaudeAdapter, "@agentclientprotocol/claude-agent-acp/dist/index.js".to_owned())
            }
            Self::Gemini => (AcpAgent::Gemini, "@google/gemini-cli/bundle/gemini.js".to_owned()),
            Self::OpenHands => (AcpAgent::OpenHands, "bin/python".to_owned()),
            Self::Native | Self::Claude => panic!("{self:?} does not speak the protocol"),
        };
        let program = installed(&self.known(), &program).display().to_string();
        let line = match self {
            Self::OpenCode => vec![program, "acp".to_owned()],
            Self::ClaudeAdapter => vec!["node".to_owned(), program],
            Self::Gemini => vec!["node".to_owned(), program, "--acp".to_owned()],
            _ => vec![program],
        };
        AcpConfig { program: Some(line), env: own_place(), ..AcpConfig::new(agent) }
    }

    pub(crate) fn setup(self) -> Setup {
        Setup { runtime: Some(self.runtime()), model: self.model(), ..Setup::default() }
    }

    pub(crate) async fn start(self, acts: Vec<Act>) -> Harness {
        Harness::start_with(acts, self.setup(), |_| ()).await
    }

    /// As a run that asks `asks` before it uses a tool.
    pub(crate) async fn start_asking(self, acts: Vec<Act>, asks: &Arc<Scripted>) -> Harness {
        let asks = Arc::clone(asks) as Arc<dyn Asks>;
        let setup = Setup { permission_mode: PermissionMode::Ask, asks, ..self.setup() };
        Harness::start_with(acts, setup, |_| ()).await
    }
}

/// As the agents' packages call it.
fn machine() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    }
}

fn installed(agent: &KnownAgent, program: &str) -> PathBuf {
    let program = place(agent).join(program);
    assert!(program.is_file(), "{} is missing: scripts/setup installs it", program.display());
    program
}

/// Where its package is laid for the tests.
fn place(agent: &KnownAgent) -> PathBuf {
    let package = agent.package.rsplit('/').next().unwrap();
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/agents")
        .join(format!("{package}-{}", agent.version));
    if agent.origin == Origin::Npm { place.join("node_modules") } else { place }
}

/// Why a kind is not tried here: one that takes seconds to start is only tried when all are wanted.
pub(crate) fn not_tried(kind: Kind) -> Option<String> {
    if kind != Kind::OpenHands {
        return None;
    }
    if std::env::var_os("SUNABA_ALL_AGENTS").is_none() {
        return Some("it takes minutes; make test-all runs it".to_owned());
    }
    let is_there = place(&kind.known()).join("bin/python").is_file();
    (!is_there).then(|| "scripts/setup all found no Python 3.12 or later to install it with".to_owned())
}

/// Says what is left out and why; the summary of the whole run repeats it.
#[expect(clippy::print_stderr, reason = "what is left out is said")]
pub(crate) fn left_out(what: &str, why: &str) {
    eprintln!("left out: {what}: {why}");
    if let Some(notes) = std::env::var_os("SUNABA_LEFT_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
        // One short write each, so lines of many tests do not mix.
        drop(file.and_then(|mut file| file.write_all(format!("{what}: {why}\n").as_bytes())));
    }
}

/// The CLI that `scripts/setup test` installs; its home is never the developer's.
pub(crate) fn claude_config() -> ClaudeConfig {
    let program =
        installed(&agents::CLAUDE, &format!("@anthropic-ai/claude-code-linux-{}/claude", machine()));
    ClaudeConfig { program, env: own_place(), ..ClaudeConfig::default() }
}

/// Answers that are given in order; keeps what was asked.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) answers: Mutex<Vec<Answer>>,
    pub(crate) questions: Mutex<Vec<Question>>,
}

impl Scripted {
    pub(crate) fn new(answers: Vec<Answer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers), questions: Mutex::default() })
    }
}

#[async_trait]
impl Asks for Scripted {
    async fn ask(&self, question: Question) -> Answer {
        self.questions.lock().unwrap().push(question);
        self.answers.lock().unwrap().remove(0)
    }
}

/// A command that says `ready` by a file and ends once there is a file `go`.
pub(crate) fn until_go(before: &str) -> (&'static str, Value) {
    let command = format!("{before}; touch ready; while [ ! -e go ]; do sleep 0.05; done; echo gone on");
    ("Bash", json!({ "command": command }))
}

pub(crate) fn go(harness: &Harness) {
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
}

/// Waits until a command has made this file.
pub(crate) async fn until_file(harness: &Harness, name: &str) -> PathBuf {
    let path = harness.dir.path().join(name);
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(FILE_DEADLINE, there).await;
    assert!(waited.is_ok(), "{name} did not appear; the story: {:#?}", harness.told());
    path
}

/// Everything that the model was sent in a request's messages, as text.
pub(crate) fn sent(request: &Value) -> String {
    // OpenAI's Responses and Google call them differently.
    let names = ["messages", "input", "contents"];
    names
        .iter()
        .find(|name| !request[**name].is_null())
        .map(|name| request[*name].to_string())
        .unwrap_or_default()
}
