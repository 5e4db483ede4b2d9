//! Why a source could not be fetched, in words that say what to do.

use crate::Error;

/// Which kind of trouble a source made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchProblem {
    /// It wants a credential, or another one.
    NotAllowed,
    /// It is not there, or not for this caller.
    NotFound,
    /// Its host does not answer.
    Unreachable,
    /// It began to answer and broke off, or says that it cannot now.
    BrokenOff,
}

impl FetchProblem {
    /// Whether the same may go through a moment later.
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::BrokenOff)
    }
}

impl FetchProblem {
    /// What to do about it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NotAllowed => {
                "the repository wants a credential: `sunaba project secret set PROJECT GIT_TOKEN` keeps a token \
                 that may read it"
            }
            Self::NotFound => {
                "check the address; a private repository looks absent without a token that may read it \
                 (`sunaba project secret set PROJECT GIT_TOKEN`)"
            }
            Self::Unreachable => "check the address and that this server can reach that host",
            Self::BrokenOff => "the connection broke off; try again",
        }
    }
}

/// What git says (with `LC_ALL=C`), and what it means. The first that is found decides.
const SIGNS: &[(&str, FetchProblem)] = &[
    ("could not resolve host", FetchProblem::Unreachable),
    ("could not resolve hostname", FetchProblem::Unreachable),
    ("failed to connect", FetchProblem::Unreachable),
    ("connection refused", FetchProblem::Unreachable),
    ("connection timed out", FetchProblem::Unreachable),
    ("network is unreachable", FetchProblem::Unreachable),
    ("no route to host", FetchProblem::Unreachable),
    ("ssl certificate problem", FetchProblem::Unreachable),
    ("authentication failed", FetchProblem::NotAllowed),
    ("could not read username", FetchProblem::NotAllowed),
    ("could not read password", FetchProblem::NotAllowed),
    ("permission denied", FetchProblem::NotAllowed),
    ("host key verification failed", FetchProblem::NotAllowed),
    ("error: 401", FetchProblem::NotAllowed),
    ("error: 403", FetchProblem::NotAllowed),
    ("repository not found", FetchProblem::NotFound),
    ("error: 404", FetchProblem::NotFound),
    ("not found", FetchProblem::NotFound),
    ("does not appear to be a git repository", FetchProblem::NotFound),
    ("does not exist", FetchProblem::NotFound),
    ("returned error: 5", FetchProblem::BrokenOff),
    ("rpc failed", FetchProblem::BrokenOff),
    ("early eof", FetchProblem::BrokenOff),
    ("bad pack header", FetchProblem::BrokenOff),
    ("hung up unexpectedly", FetchProblem::BrokenOff),
    ("unexpected disconnect", FetchProblem::BrokenOff),
    ("empty reply from server", FetchProblem::BrokenOff),
    ("connection reset", FetchProblem::BrokenOff),
    ("recv failure", FetchProblem::BrokenOff),
    ("transfer closed", FetchProblem::BrokenOff),
];

/// Names the trouble with a source elsewhere; an error of another kind stays as it is.
pub(crate) fn explain(source: &str, error: Error) -> Error {
    let Error::Failed { stderr, .. } = &error else { return error };
    let said = stderr.to_ascii_lowercase();
    match SIGNS.iter().find(|(sign, _)| said.contains(sign)) {
        Some((_, problem)) => Error::CannotFetch {
            url: crate::command::presentable(source),
            problem: *problem,
            stderr: stderr.clone(),
        },
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(stderr: &str) -> Option<FetchProblem> {
        let failed = Error::Failed { operation: "fetch".into(), stderr: stderr.into() };
        match explain("https://joe:pw@example.org/a.git", failed) {
            Error::CannotFetch { url, problem, .. } => {
                assert_eq!(url, "https://***@example.org/a.git");
                Some(problem)
            }
            _ => None,
        }
    }

    #[test]
    fn troubles_are_told_apart() {
        let cases = [
            ("fatal: Authentication failed for 'https://x/'", Some(FetchProblem::NotAllowed)),
            (
                "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
                Some(FetchProblem::NotAllowed),
            ),
            (
                "remote: Repository not found.\nfatal: repository 'https://x/' not found",
                Some(FetchProblem::NotFound),
            ),
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                Some(FetchProblem::Unreachable),
            ),
            (
                "fatal: unable to access 'http://x/': Failed to connect to x port 1: Couldn't connect to server",
                Some(FetchProblem::Unreachable),
            ),
            (
                "error: RPC failed; curl 18 transfer closed with outstanding read data remaining\nfatal: protocol \
                 error: bad pack header",
                Some(FetchProblem::BrokenOff),
            ),
            (
                "fatal: unable to access 'http://x/': The requested URL returned error: 503",
                Some(FetchProblem::BrokenOff),
            ),
            ("fatal: unable to access 'http://x/': Empty reply from server", Some(FetchProblem::BrokenOff)),
            ("fatal: bad object", None),
        ];
        for (said, expected) in cases {
            assert_eq!(problem(said), expected, "{said}");
        }
    }
}
