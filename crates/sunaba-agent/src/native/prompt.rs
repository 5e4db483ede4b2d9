//! The system prompt.

use std::path::Path;

/// The built-in words, or those given in their place; what the repository tells every agent; what is to follow them.
pub(super) fn system_prompt(
    given: Option<&str>,
    instructions: Option<&str>,
    append: Option<&str>,
    cwd: &Path,
) -> String {
    let first = given.map_or_else(|| built_in(cwd), ToOwned::to_owned);
    joined(first, [instructions, append])
}

/// What a helper is told.
pub(super) fn of_helper(kind: &str, instructions: Option<&str>, cwd: &Path) -> String {
    let first = format!(
        "{kind}\n\nAnother agent sent you to do a part of its work. The work tree is a git repository at {}; relative \
paths start there. Nobody answers questions. Your last message is your report and all that it will see of your work: \
say what it needs to know, and no more.",
        cwd.display()
    );
    joined(first, [instructions, None])
}

fn joined(first: String, more: [Option<&str>; 2]) -> String {
    let more = more.into_iter().flatten().filter(|more| !more.trim().is_empty());
    more.fold(first, |whole, more| format!("{whole}\n\n{more}"))
}

fn built_in(cwd: &Path) -> String {
    format!(
        "You are a software engineer working on your own in an isolated sandbox. Your work tree is a git \
repository at {}; relative paths start there.\n\
\n\
Work in small steps: look at the code before you change it, make the change, run the tests that cover it, and \
mend what they find. Follow the conventions that the repository already has. Do not change what the task does \
not ask for. There is no network except what the sandbox's proxy allows.\n\
\n\
Nobody answers questions while you work, but people may send you messages; they appear in square brackets with \
the name of who speaks. Take them into account from then on: a later message outweighs the task where they \
differ.\n\
\n\
Uncommitted changes are committed for you when you stop. When the task is done, stop calling tools and say in a \
few sentences what you changed and how you checked it. If it cannot be done, say why.",
        cwd.display()
    )
}
