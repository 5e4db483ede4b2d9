//! What the agent is told at the beginning of an iteration.

use std::fmt::Write as _;

use super::settings::Continuous;

/// Why there is another iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Why {
    First,
    /// It ended without the signal.
    NotDone,
    /// It said the signal, and it has to say it again.
    SayAgain,
    /// It said the signal, and this was missing.
    Missing(Vec<String>),
    Failed(String),
}

/// The task and how it comes to its end.
pub(super) fn task(task: &str, settings: &Continuous, branch: &str) -> String {
    let mut text = format!("{task}\n\n[you work in iterations, until you are done and that is seen]\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "When everything is done, end your answer with {}. It is then looked at:",
        settings.signal
    );
    if settings.require_clean_git {
        text.push_str("- everything is committed: `git status` shows nothing\n");
    }
    if settings.require_code_pushed {
        let _ = writeln!(text, "- your commits are pushed: `git push origin HEAD:{branch}`");
    }
    if let Some(command) = settings.check_command.as_deref().filter(|_| settings.require_tests) {
        let _ = writeln!(text, "- the check passes: `{command}`");
    }
    text.push_str("What is missing you are told, and you go on.");
    text
}

/// What is said at the beginning of an iteration after the first.
pub(super) fn next(why: &Why, settings: &Continuous) -> String {
    let signal = &settings.signal;
    match why {
        Why::First => String::new(),
        Why::NotDone => {
            format!("Go on with the task. End your answer with {signal} when everything is done.")
        }
        Why::SayAgain => {
            format!("Look over your work once more. End your answer with {signal} if everything is done.")
        }
        Why::Missing(missing) => {
            let list: String = missing.iter().map(|what| format!("- {what}\n")).collect();
            format!("You said {signal}, but it is not done:\n{list}Put that right, then say {signal} again.")
        }
        Why::Failed(error) => {
            format!("The last iteration ended with an error: {error}\nGo on with the task.")
        }
    }
}
