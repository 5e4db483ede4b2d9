//! The agents: what each is called, where its program is, and what it was seen to do.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::python;

/// An agent that drives a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Native,
    Claude,
    Codex,
    OpenCode,
    OpenHands,
    Gemini,
}

impl Agent {
    /// As users choose it.
    pub(crate) const fn runtime(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::OpenHands => "openhands",
            Self::Gemini => "gemini",
        }
    }

    /// The program that it is, where it is one of its own.
    pub(crate) const fn program(self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Claude => Some("claude"),
            Self::Codex => Some("codex-acp"),
            Self::OpenCode => Some("opencode"),
            Self::OpenHands => Some("python3"),
            Self::Gemini => Some("gemini"),
        }
    }

    /// What is expected of it, case by case.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Native => include_str!("expected/native.txt"),
            Self::Claude => include_str!("expected/claude-2.1.197.txt"),
            Self::Codex => include_str!("expected/codex-acp-0.16.0.txt"),
            Self::OpenCode => include_str!("expected/opencode-1.18.33.txt"),
            Self::OpenHands => include_str!("expected/openhands-1.58.0.txt"),
            Self::Gemini => include_str!("expected/gemini-0.61.0.txt"),
        }
    }

    /// Puts its program where sandboxes find it; the directories that they have to see for it.
    pub(crate) fn lay(self, toolchain: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let Some(name) = self.program() else { return Ok(Vec::new()) };
        let program = installed(self)?;
        if self == Self::OpenHands {
            python::lay(&program, toolchain)?;
            return Ok(vec![toolchain.to_owned()]);
        }
        let bin = toolchain.join("bin");
        std::fs::create_dir_all(&bin)?;
        let mut seen = vec![toolchain.to_owned()];
        let laid = match self {
            // As npm does it: what is on the path is a link into the package, whose files belong together.
            Self::Gemini => {
                let program = program.canonicalize()?;
                seen.extend(
                    program.ancestors().find(|place| place.ends_with("node_modules")).map(Path::to_owned),
                );
                std::os::unix::fs::symlink(&program, bin.join(name))
            }
            // They are large; a link is as good where there can be one.
            Self::Native | Self::Claude | Self::Codex | Self::OpenCode | Self::OpenHands => {
                std::fs::hard_link(&program, bin.join(name))
                    .or_else(|_| std::fs::copy(&program, bin.join(name)).map(drop))
            }
        };
        laid.with_context(|| format!("lay {} into {}", program.display(), bin.display()))?;
        Ok(seen)
    }
}

fn installed(agent: Agent) -> anyhow::Result<PathBuf> {
    let machine = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    let place = match agent {
        Agent::Native => String::new(),
        Agent::OpenHands => python::PROGRAM.to_owned(),
        Agent::Claude => {
            format!("claude-code-2.1.197/node_modules/@anthropic-ai/claude-code-linux-{machine}/claude")
        }
        Agent::Codex => {
            format!("codex-acp-0.16.0/node_modules/@zed-industries/codex-acp-linux-{machine}/bin/codex-acp")
        }
        Agent::OpenCode => {
            format!("opencode-ai-1.18.33/node_modules/opencode-linux-{machine}/bin/opencode")
        }
        Agent::Gemini => "gemini-cli-0.61.0/node_modules/@google/gemini-cli/bundle/gemini.js".to_owned(),
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/agents").join(place);
    ensure!(program.is_file(), "{} is missing: scripts/setup installs it", program.display());
    Ok(program)
}

/// Why an agent is not tried here: one that takes seconds to start is only tried when all are wanted.
pub(crate) fn not_tried(agent: Agent) -> Option<String> {
    if agent != Agent::OpenHands {
        return None;
    }
    if std::env::var_os("SUNABA_ALL_AGENTS").is_none() {
        return Some("it takes minutes; make test-all runs it".to_owned());
    }
    let is_there = installed(agent).is_ok();
    (!is_there).then(|| "scripts/setup all found no Python 3.12 or later to install it with".to_owned())
}
