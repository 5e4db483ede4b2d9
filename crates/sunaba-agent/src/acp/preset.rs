//! The agents that are known, as data: how each is started and what it was seen to do.

use sunaba_types::agents::{
    CLAUDE_ADAPTER as KNOWN_ADAPTER, CODEX as KNOWN_CODEX, GEMINI as KNOWN_GEMINI, KnownAgent,
    OPENCODE as KNOWN_OPENCODE, OPENHANDS as KNOWN_OPENHANDS, Origin,
};

use crate::{Capabilities, Steer};

/// An agent that speaks the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcpAgent {
    /// OpenAI's Codex, by its adapter.
    Codex,
    /// OpenCode.
    OpenCode,
    /// Claude Code, by its adapter.
    ClaudeAdapter,
    /// Google's Gemini CLI.
    Gemini,
    /// OpenHands, by a program of ours that drives its library.
    OpenHands,
    /// Any other, by its command line. Nothing is known of it but what the protocol promises.
    Command(Vec<String>),
}

/// How an agent takes a prompt that comes while it works on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompts {
    /// Not known, or it drops what it does for it: it is given one at a time.
    OneAtATime,
    /// It takes it into the turn, and answers each when what it asked for is done.
    Each,
    /// It takes it into the turn, and its answer to the first stands for all.
    First,
}

/// Whose protocol an agent asks the model in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    Anthropic,
    OpenAi,
    Google,
}

/// What is known of an agent.
#[derive(Debug)]
pub(super) struct Preset {
    /// Where it comes from, and how it is started; the name is all of it that is known of one by command line.
    pub(super) known: KnownAgent,
    /// Whose protocol it asks the model in.
    pub(super) speaks: Speaks,
    pub(super) capabilities: Capabilities,
    pub(super) prompts: Prompts,
    /// Whether it goes on with its turn when it was not allowed something.
    pub(super) goes_on_after_refusal: bool,
    /// Where in its own directory it keeps conversations: directories, or beginnings of file names.
    pub(super) keeps: &'static [&'static str],
    /// Whether a model call that was cut off stays open until more of it comes. Then only another process will do.
    pub(super) lets_calls_linger: bool,
    /// Whether a tool call that did not end stays in its memory without a result. Then it has to take its session up
    /// again from what it wrote down, and what is denied ends its turn.
    pub(super) keeps_open_calls: bool,
    /// Whether it ends when nobody can speak to it any more, having written everything down.
    pub(super) ends_with_its_input: bool,
    /// How what it says to the user by itself begins, in the place where the model's words are told.
    pub(super) noise: &'static [&'static str],
}

const STEERED: Capabilities =
    Capabilities { steer: Steer::NextTool, interrupt: true, resume: true, fork: true, permissions: true };

static CODEX: Preset = Preset {
    known: KNOWN_CODEX,
    speaks: Speaks::OpenAi,
    capabilities: STEERED,
    prompts: Prompts::First,
    goes_on_after_refusal: false,
    keeps: &["sessions"],
    lets_calls_linger: true,
    keeps_open_calls: false,
    ends_with_its_input: false,
    noise: &["Model metadata for `"],
};

static OPENCODE: Preset = Preset {
    known: KNOWN_OPENCODE,
    speaks: Speaks::OpenAi,
    capabilities: STEERED,
    prompts: Prompts::Each,
    goes_on_after_refusal: false,
    keeps: &["data/opencode/opencode.db"],
    lets_calls_linger: false,
    keeps_open_calls: false,
    ends_with_its_input: true,
    noise: &[],
};

static CLAUDE_ADAPTER: Preset = Preset {
    known: KNOWN_ADAPTER,
    speaks: Speaks::Anthropic,
    capabilities: STEERED,
    prompts: Prompts::Each,
    goes_on_after_refusal: true,
    keeps: &["projects"],
    lets_calls_linger: false,
    keeps_open_calls: false,
    ends_with_its_input: true,
    noise: &["API Error: "],
};

static GEMINI: Preset = Preset {
    known: KNOWN_GEMINI,
    speaks: Speaks::Google,
    capabilities: Capabilities { steer: Steer::EndOfTurn, ..STEERED },
    prompts: Prompts::OneAtATime,
    goes_on_after_refusal: false,
    keeps: &[".gemini/tmp", ".gemini/projects.json"],
    lets_calls_linger: false,
    keeps_open_calls: true,
    ends_with_its_input: true,
    noise: &["[MODE_UPDATE] "],
};

static OPENHANDS: Preset = Preset {
    known: KNOWN_OPENHANDS,
    speaks: Speaks::Anthropic,
    capabilities: STEERED,
    prompts: Prompts::Each,
    goes_on_after_refusal: true,
    keeps: &["conversations"],
    lets_calls_linger: false,
    keeps_open_calls: false,
    ends_with_its_input: true,
    noise: &[],
};

/// Whether it would ask cannot be known, so it is never relied upon to; nor is where it keeps its conversations.
static COMMAND: Preset = Preset {
    known: KnownAgent {
        name: "acp",
        title: "the agent",
        origin: Origin::Unpackaged,
        package: "",
        version: "",
        command: &[],
        model_api: "",
        found: "",
    },
    speaks: Speaks::Anthropic,
    capabilities: Capabilities {
        steer: Steer::EndOfTurn,
        interrupt: true,
        resume: true,
        fork: false,
        permissions: false,
    },
    prompts: Prompts::OneAtATime,
    goes_on_after_refusal: true,
    keeps: &[],
    lets_calls_linger: false,
    keeps_open_calls: false,
    ends_with_its_input: true,
    noise: &[],
};

impl AcpAgent {
    /// The agents that are known by name.
    pub const KNOWN: [Self; 5] =
        [Self::Codex, Self::OpenCode, Self::ClaudeAdapter, Self::Gemini, Self::OpenHands];

    /// The one that a user means by this name, or by `acp:` and a command line.
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_prefix("acp:") {
            Some(line) => words(line).filter(|words| !words.is_empty()).map(Self::Command),
            None => Self::KNOWN.into_iter().find(|agent| agent.name() == name),
        }
    }

    /// Its name, as users choose it.
    pub fn name(&self) -> &'static str {
        self.preset().known.name
    }

    pub(super) fn preset(&self) -> &'static Preset {
        match self {
            Self::Codex => &CODEX,
            Self::OpenCode => &OPENCODE,
            Self::ClaudeAdapter => &CLAUDE_ADAPTER,
            Self::Gemini => &GEMINI,
            Self::OpenHands => &OPENHANDS,
            Self::Command(_) => &COMMAND,
        }
    }

    /// The program and its arguments.
    pub(super) fn command_line(&self) -> Vec<String> {
        match self {
            Self::Command(words) => words.clone(),
            known => known.preset().known.command.iter().map(|word| (*word).to_owned()).collect(),
        }
    }
}

impl Preset {
    /// What to do about a program that is not there.
    pub(super) fn how_to_install(&self, program: &str) -> String {
        if self.known.is_built_in() {
            return format!("{program} is not there; install it where sandboxes see it");
        }
        self.known.not_installed(program)
    }
}

/// The words of a command line; quotes hold words together. None when one is left open.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => word.get_or_insert_default().push(character),
            None if matches!(character, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use sunaba_types::agents::MessageEffect;

    use super::*;

    #[test]
    fn a_command_line_is_taken_apart_as_a_shell_would() {
        let line = |line: &str| words(line).unwrap();
        assert_eq!(line(" a  b\t'c d'e "), ["a", "b", "c de"]);
        assert_eq!(line(r#"a "" "it's""#), ["a", "", "it's"]);
        assert_eq!(words("a 'b"), None);
        assert_eq!(AcpAgent::named("acp: "), None);
        assert_eq!(AcpAgent::named("parrot"), None);
    }

    #[test]
    fn what_is_promised_is_what_was_found() {
        for agent in AcpAgent::KNOWN {
            let (promised, found) = (agent.preset().capabilities, agent.preset().known.abilities());
            assert_eq!(promised.steer == Steer::NextTool, found.message != MessageEffect::EndOfTurn);
            let promised = (promised.interrupt, promised.resume, promised.fork, promised.permissions);
            let found = (found.interrupt, found.resume, found.fork, found.permissions);
            assert_eq!(promised, found, "{}", agent.name());
        }
    }
}
