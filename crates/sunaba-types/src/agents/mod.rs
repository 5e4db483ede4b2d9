//! The agents that are known: where each comes from, and what the conformance suite finds that it does.
//!
//! One source for everybody: the suite breaks when an agent does something else than its file says, and the runtimes,
//! the API, the command line and `docs/agents.md` say what is here.

mod results;
mod table;

pub use results::{CASES, CaseResult, MEASURED, Measured, Verdict};
pub use table::{behaviour_table, install_table, times_table};

/// Where programs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is part of Sunaba, or nobody knows.
    Unpackaged,
    /// The registry of Node's packages.
    Npm,
    /// The registry of Python's.
    PyPi,
}

/// An agent that is known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAgent {
    /// As users choose it.
    pub name: &'static str,
    /// As people call it.
    pub title: &'static str,
    /// Whose registry has its package.
    pub origin: Origin,
    /// Its package there; empty when it is part of Sunaba.
    pub package: &'static str,
    /// The version that the suite runs.
    pub version: &'static str,
    /// Its program, and what makes that do what is wanted.
    pub command: &'static [&'static str],
    /// How it asks the model.
    pub model_api: &'static str,
    /// What the suite finds, as text; see [`KnownAgent::results`].
    pub found: &'static str,
}

/// The loop that is part of the worker.
pub const NATIVE: KnownAgent = KnownAgent {
    name: "native",
    title: "Sunaba's own loop",
    origin: Origin::Unpackaged,
    package: "",
    version: "",
    command: &[],
    model_api: "Anthropic Messages",
    found: include_str!("native.txt"),
};

/// The Claude Code CLI.
pub const CLAUDE: KnownAgent = KnownAgent {
    name: "claude",
    title: "Claude Code",
    origin: Origin::Npm,
    package: "@anthropic-ai/claude-code",
    version: "2.1.197",
    command: &["claude"],
    model_api: "Anthropic Messages",
    found: include_str!("claude-2.1.197.txt"),
};

/// OpenAI's Codex, by its adapter.
pub const CODEX: KnownAgent = KnownAgent {
    name: "codex",
    title: "Codex",
    origin: Origin::Npm,
    package: "@zed-industries/codex-acp",
    version: "0.16.0",
    command: &["codex-acp"],
    model_api: "OpenAI Responses",
    found: include_str!("codex-acp-0.16.0.txt"),
};

/// OpenCode.
pub const OPENCODE: KnownAgent = KnownAgent {
    name: "opencode",
    title: "OpenCode",
    origin: Origin::Npm,
    package: "opencode-ai",
    version: "1.18.33",
    command: &["opencode", "acp"],
    model_api: "OpenAI Chat Completions",
    found: include_str!("opencode-1.18.33.txt"),
};

/// Claude Code, by its adapter.
pub const CLAUDE_ADAPTER: KnownAgent = KnownAgent {
    name: "claude-acp",
    title: "Claude's ACP adapter",
    origin: Origin::Npm,
    package: "@agentclientprotocol/claude-agent-acp",
    version: "0.49.0",
    command: &["claude-agent-acp"],
    model_api: "Anthropic Messages",
    found: include_str!("claude-agent-acp-0.49.0.txt"),
};

/// Google's Gemini CLI.
pub const GEMINI: KnownAgent = KnownAgent {
    name: "gemini",
    title: "Gemini CLI",
    origin: Origin::Npm,
    package: "@google/gemini-cli",
    version: "0.61.0",
    command: &["gemini", "--acp"],
    model_api: "Google generateContent",
    found: include_str!("gemini-0.61.0.txt"),
};

/// OpenHands, by its library.
pub const OPENHANDS: KnownAgent = KnownAgent {
    name: "openhands",
    title: "OpenHands",
    origin: Origin::PyPi,
    package: "openhands-agent-server",
    version: "1.58.0",
    command: &["python3"],
    model_api: "Anthropic Messages",
    found: include_str!("openhands-1.58.0.txt"),
};

/// All of them, in the order in which they are listed.
pub const KNOWN: [KnownAgent; 7] = [NATIVE, CLAUDE, CODEX, OPENCODE, CLAUDE_ADAPTER, GEMINI, OPENHANDS];

/// Their names.
pub const NAMES: [&str; KNOWN.len()] = {
    let mut names = [""; KNOWN.len()];
    let mut at = 0;
    while at < KNOWN.len() {
        names[at] = KNOWN[at].name;
        at += 1;
    }
    names
};

/// Where a message takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageEffect {
    /// In the next model call, after the tool that runs.
    NextCall,
    /// Mostly so; sometimes in the one after.
    NextCallOrLater,
    /// When the agent has nothing more to say.
    EndOfTurn,
}

impl MessageEffect {
    /// As the API says it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NextCall => "next_call",
            Self::NextCallOrLater => "next_call_or_later",
            Self::EndOfTurn => "end_of_turn",
        }
    }
}

/// What an agent can do while it works, as the suite found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Where a message takes effect.
    pub message: MessageEffect,
    /// Whether it can be stopped at once and told to go on.
    pub interrupt: bool,
    /// Whether it asks before it uses a tool.
    pub permissions: bool,
    /// Whether it can be told to do something else than it asked for.
    pub rewrite: bool,
    /// Whether a conversation can be taken up after a kill.
    pub resume: bool,
    /// Whether a copy of one can be taken up.
    pub fork: bool,
    /// Whether it sends helpers and tells of them.
    pub helpers: bool,
}

impl KnownAgent {
    /// The one of this name.
    pub fn find(name: &str) -> Option<Self> {
        KNOWN.into_iter().find(|agent| agent.name == name)
    }

    /// Whether it is part of Sunaba.
    pub fn is_built_in(&self) -> bool {
        self.package.is_empty()
    }

    /// The name of its program; none when it is part of Sunaba.
    pub fn program(&self) -> Option<&'static str> {
        self.command.first().copied()
    }

    /// The command that installs it; none when it is part of Sunaba.
    pub fn install(&self) -> Option<String> {
        let Self { package, version, .. } = self;
        match self.origin {
            Origin::Unpackaged => None,
            Origin::Npm => Some(format!("npm install -g {package}@{version}")),
            Origin::PyPi => Some(format!("python3 -m pip install {package}=={version}")),
        }
    }

    /// What to do when its program is not there.
    pub fn not_installed(&self, program: &str) -> String {
        self.to_be_installed(&format!("{program} is not there"))
    }

    /// What to do when it cannot be started, and this is why.
    pub fn to_be_installed(&self, why: &str) -> String {
        format!(
            "{} is not installed ({why}); install it where sandboxes see it: {}",
            self.title,
            self.install().unwrap_or_default()
        )
    }

    /// What it does, case by case.
    pub fn results(&self) -> Vec<CaseResult> {
        results::read(self.found)
    }

    /// How long things took.
    pub fn measured(&self) -> Vec<Measured> {
        results::read_measured(self.found)
    }

    /// The result of one case.
    pub fn result(&self, case: &str) -> Option<CaseResult> {
        self.results().into_iter().find(|result| result.case == case)
    }

    /// What it can do while it works.
    pub fn abilities(&self) -> Abilities {
        let verdict = |case: &str| self.result(case).map(|result| result.verdict);
        let always = |case: &str| verdict(case) == Some(Verdict::Yes);
        let at_times = |case: &str| always(case) || verdict(case) == Some(Verdict::Sometimes);
        Abilities {
            message: match verdict("message_in_a_tool") {
                Some(Verdict::Yes) => MessageEffect::NextCall,
                Some(Verdict::Sometimes) => MessageEffect::NextCallOrLater,
                Some(Verdict::No) | None => MessageEffect::EndOfTurn,
            },
            interrupt: always("interrupt_in_a_tool") && always("interrupt_in_a_stream"),
            // What is denied is never done; the words may come late.
            permissions: always("permission_allowed") && at_times("permission_denied"),
            rewrite: always("permission_rewritten"),
            resume: always("resume_after_kill"),
            fork: always("fork"),
            helpers: always("helper"),
        }
    }
}
