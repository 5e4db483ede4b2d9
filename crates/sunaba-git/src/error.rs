//! What can go wrong with git, as far as callers act on it.

use std::path::PathBuf;
use std::time::Duration;

/// The result of a git call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A git error. Text that came from git is trimmed and holds no credential.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is not in a git repository.
    #[error("{} is not a git repository; make one with `git init`", .0.display())]
    NotARepository(PathBuf),
    /// The repository holds no commit, so there is nothing to start from.
    #[error("the repository {} has no commits yet; commit something first", .0.display())]
    NoCommits(PathBuf),
    /// There is no such branch, tag or commit.
    #[error("there is no branch or commit {0}")]
    UnknownRef(String),
    /// Not a name that git allows for a branch.
    #[error("{0:?} cannot be a branch name")]
    BadBranchName(String),
    /// The branch exists already.
    #[error("the branch {0} exists already")]
    BranchExists(String),
    /// The branch is checked out, so writing it would change what a person works on.
    #[error("the branch {branch} is checked out in {}; it is never written to while it is", .work_tree.display())]
    CheckedOut {
        /// The branch.
        branch: String,
        /// Where it is checked out.
        work_tree: PathBuf,
    },
    /// The branch holds commits that the new ones do not follow.
    #[error("the branch {0} has commits of its own; only a fast-forward is written")]
    NotFastForward(String),
    /// The place for a workspace is taken.
    #[error("{} exists and is not empty; a workspace is only made in an empty directory", .0.display())]
    WorkspaceNotEmpty(PathBuf),
    /// Others write to the project's mirror and do not come to an end.
    #[error("the project's repository was busy for {seconds} s; try again")]
    Busy {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Git took too long and was stopped.
    #[error("git {operation} did not end within {} s and was stopped", .limit.as_secs())]
    Timeout {
        /// What was asked.
        operation: String,
        /// The limit.
        limit: Duration,
    },
    /// Git said no.
    #[error("git {operation}: {stderr}")]
    Failed {
        /// What was asked.
        operation: String,
        /// What git printed.
        stderr: String,
    },
    /// A source elsewhere could not be fetched.
    #[error("the repository {url} cannot be fetched; {} (git: {stderr})", .problem.advice())]
    CannotFetch {
        /// Where it is, without any credential.
        url: String,
        /// Which kind of trouble it made.
        problem: crate::FetchProblem,
        /// What git printed.
        stderr: String,
    },
    /// A copy of a repository that now has ids of another kind.
    #[error(
        "{} holds {has} objects and the repository has {wanted} ones; when no sandbox of the project runs on this \
         machine, remove that directory and try again",
        .dir.display()
    )]
    OtherFormat {
        /// The copy.
        dir: PathBuf,
        /// What it has.
        has: crate::ObjectFormat,
        /// What it would need.
        wanted: crate::ObjectFormat,
    },
    /// A file of a commit is larger than may be read.
    #[error("{path} is larger than {max_bytes} bytes")]
    TooLarge {
        /// Which.
        path: String,
        /// The bound.
        max_bytes: u64,
    },
    /// The system said no.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Names what was tried when the system said no.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what: format!("{what}: {source}"), source }
    }
}
