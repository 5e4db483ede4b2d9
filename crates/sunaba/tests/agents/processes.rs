//! Processes of sandboxes, as this machine sees them.

use std::path::Path;

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::victims::{descends_from, processes, shims, words};

/// A command that nobody else's looks like: a sleep of an hour and a few millionths of a second of its own.
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(format!("3600.{:06}", rand::random_range(0..1_000_000)))
    }

    /// The command.
    pub(crate) fn command(&self) -> String {
        format!("sleep {}", self.0)
    }

    /// How many processes run it. One that only waits to be reaped has no command line any more.
    pub(crate) fn count(&self) -> usize {
        processes().filter(|pid| words(*pid).starts_with(&["sleep".to_owned(), self.0.clone()])).count()
    }
}

/// A part of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// The worker's program in one of its roles.
    Worker(&'static str),
    /// The agent's program.
    Program(&'static str),
}

impl Part {
    fn is(self, words: &[String]) -> bool {
        let named = |name: &str| words.first().is_some_and(|first| Path::new(first).ends_with(name));
        match self {
            Self::Worker(role) => named("sunaba-worker") && words.iter().any(|word| word == role),
            Self::Program(name) => named(name),
        }
    }

    /// Its processes in the sandbox of this directory.
    pub(crate) fn find(self, sandbox: &Path) -> Vec<i32> {
        let shims = shims(sandbox);
        processes().filter(|pid| self.is(&words(*pid)) && descends_from(*pid, &shims)).collect()
    }

    /// Ends it without warning; there has to be one.
    pub(crate) fn kill(self, sandbox: &Path) -> anyhow::Result<Vec<i32>> {
        let found = self.find(sandbox);
        ensure!(!found.is_empty(), "there is no {self:?} in {}", sandbox.display());
        for pid in &found {
            ensure!(*pid > 1, "{pid} is no process of a sandbox");
            match kill(Pid::from_raw(*pid), Signal::SIGKILL) {
                // It ended by itself: a copy of the program that was only there to start another one.
                Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("kill {self:?}")),
            }
        }
        Ok(found)
    }
}
