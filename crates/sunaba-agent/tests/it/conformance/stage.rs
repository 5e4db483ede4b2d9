//! What the cases have in common: a runtime by its kind, and commands that wait for a sign.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sunaba_agent::{
    Answer, Asks, ClaudeConfig, ClaudeRuntime, NativeConfig, NativeRuntime, PermissionMode, Question,
    RetryPolicy, Runtime,
};

use crate::fake_model::Act;
use crate::harness::{Harness, Setup};

/// Time for a file to appear.
const FILE_DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Native,
    Claude,
}

impl Kind {
    pub(crate) fn runtime(self) -> Box<dyn Runtime> {
        match self {
            Self::Native => {
                let retry = RetryPolicy { base_delay: Duration::from_millis(5), ..RetryPolicy::default() };
                Box::new(NativeRuntime::new(NativeConfig { retry, ..NativeConfig::default() }))
            }
            Self::Claude => Box::new(ClaudeRuntime::new(claude_config())),
        }
    }

    /// A helper that it has by itself.
    pub(crate) fn helper(self) -> &'static str {
        match self {
            Self::Native => "architect",
            Self::Claude => "general-purpose",
        }
    }

    pub(crate) fn setup(self) -> Setup {
        Setup { runtime: Some(self.runtime()), ..Setup::default() }
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

/// The CLI that `scripts/setup test` installs; its home is never the developer's.
pub(crate) fn claude_config() -> ClaudeConfig {
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/agents/claude-code-2.1.197/node_modules/@anthropic-ai")
        .join(format!("claude-code-linux-{machine}/claude"));
    assert!(program.is_file(), "{} is missing: scripts/setup test installs it", program.display());
    let home = std::env::temp_dir().join(format!("sunaba-agent-home-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let env = vec![("HOME".to_owned(), home.display().to_string())];
    ClaudeConfig { program, env, ..ClaudeConfig::default() }
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
    request["messages"].to_string()
}
