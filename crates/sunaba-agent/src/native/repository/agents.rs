//! The helpers that an agent can send: built in, or from the repository's `.claude/agents` and `.sunaba/agents`.

use std::path::Path;

use super::front_matter::Document;
use super::{entries, places, put, read};
use crate::text::clip;

const DESCRIPTION_MAX_CHARS: usize = 1_000;
const PROMPT_MAX_CHARS: usize = 50_000;

/// A kind of helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::native) struct AgentKind {
    pub(in crate::native) name: String,
    /// When to send it.
    pub(in crate::native) description: String,
    /// What it is told about itself.
    pub(in crate::native) prompt: String,
    /// What it may use; everything that its sender may, when it does not say.
    pub(in crate::native) tools: Option<Vec<String>>,
    /// The model that it wants; its sender's, when it does not say.
    pub(in crate::native) model: Option<String>,
}

/// Every kind there is, by name once.
pub(in crate::native) fn agents(cwd: &Path) -> Vec<AgentKind> {
    let mut kinds = built_in();
    for place in places(cwd) {
        for directory in [".claude/agents", ".sunaba/agents"] {
            let files = entries(&place.join(directory)).into_iter();
            let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
            for kind in files.filter_map(|path| from_file(&path)) {
                put(&mut kinds, kind, |kind| &kind.name);
            }
        }
    }
    kinds
}

fn from_file(path: &Path) -> Option<AgentKind> {
    let document = Document::parse(&read(path)?);
    let name = document.field("name").map(ToOwned::to_owned);
    let name = name.or_else(|| Some(path.file_stem()?.to_str()?.to_owned()))?;
    if document.body.is_empty() {
        return None;
    }
    Some(AgentKind {
        description: clip(document.field("description").unwrap_or(&name), DESCRIPTION_MAX_CHARS),
        name,
        prompt: clip(&document.body, PROMPT_MAX_CHARS),
        tools: document.list("tools").filter(|tools| tools != &["*"]),
        model: document.field("model").filter(|model| !is_alias(model)).map(ToOwned::to_owned),
    })
}

/// Names that only one vendor's program can turn into a model.
fn is_alias(model: &str) -> bool {
    matches!(model, "inherit" | "default" | "sonnet" | "opus" | "haiku" | "opusplan")
}

fn built_in() -> Vec<AgentKind> {
    let kind = |name: &str, description: &str, prompt: &str, tools: &[&str]| AgentKind {
        name: name.to_owned(),
        description: description.to_owned(),
        prompt: prompt.to_owned(),
        tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        model: None,
    };
    vec![
        kind(
            "code-reviewer",
            "Reviews changes for mistakes, security and style. Send it when a piece of work is done; name the files \
or the commits.",
            "You review code. Look at the changes (git diff, git log) and at the code around them. Report mistakes that \
would show at run time first, then security, then what is hard to read or not in the style of the repository. Give \
file, line, what is wrong and what would be right; leave out what is fine. Change nothing.",
            &["Read", "Glob", "Grep", "Bash"],
        ),
        kind(
            "test-runner",
            "Runs tests and says what failed and why. Name the tests, or what was changed.",
            "You run tests. Find out how this repository runs them, run those that were asked for and report: how many \
passed, and for each failure its name, what was expected, what came, and the line of code that is the likely cause. \
Quote output as it is. Mend nothing.",
            &["Read", "Glob", "Grep", "Bash"],
        ),
        kind(
            "architect",
            "Studies the code and proposes how to build something, before it is built. Only reads.",
            "You plan changes to software. Read what is there until you understand how it works, then propose a way that \
fits it: which files and functions change and how, what is new, what could break, in which order to go, how to test it. \
Name real paths and names. If there are several ways, say which you would take and why. Change nothing.",
            &["Read", "Glob", "Grep"],
        ),
        kind(
            "debugger",
            "Finds the cause of a failure and mends it. Give it the error and how to make it happen.",
            "You find causes. Make the failure happen first. Then narrow it down: read the code on its way, try one \
assumption at a time, look instead of guessing. Mend the cause and not the symptom with the smallest change, and show \
that the failure is gone. Report the cause, the change and the proof.",
            &["Read", "Glob", "Grep", "Bash", "Edit", "Write"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_adds_to_the_built_in_ones_and_replaces_them() {
        let dir = tempfile::TempDir::new().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            ".claude/agents/debugger.md",
            "---\nname: debugger\ndescription: ours\nmodel: opus\n---\nOur way.",
        );
        write(".claude/agents/poet.md", "---\ntools: Read, Write\nmodel: glm-5\n---\nIn verse.");
        write(".sunaba/agents/poet.md", "---\nname: poet\n---\nIn prose.");
        write(".sunaba/agents/empty.md", "---\nname: empty\n---\n");
        write(".sunaba/agents/notes.txt", "no agent");
        let kinds = agents(dir.path());
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names, ["code-reviewer", "test-runner", "architect", "debugger", "poet"]);
        let debugger = &kinds[3];
        assert_eq!((debugger.prompt.as_str(), &debugger.tools, &debugger.model), ("Our way.", &None, &None));
        assert_eq!(kinds[4].prompt, "In prose.");
    }
}
