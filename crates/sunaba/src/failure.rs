//! Why a command could not do what was asked, and the exit code that says so.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly, 3 the server cannot be reached, 130 cancelled.

use std::fmt;
use std::process::ExitCode;

use serde::Deserialize;

/// The task waits, for an answer or for a limit, and goes on by itself when that has come.
pub(crate) const WAITS: u8 = 4;
/// The sandbox was cancelled.
pub(crate) const CANCELLED: u8 = 130;

/// An RFC 9457 problem as the server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    /// The HTTP status.
    pub(crate) status: u16,
    /// A stable word for programs.
    pub(crate) code: String,
    /// In short.
    pub(crate) title: String,
    /// In this case.
    pub(crate) detail: String,
    /// The fields that are wrong.
    pub(crate) errors: Vec<FieldError>,
}

/// One field that is wrong.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FieldError {
    /// Which.
    pub(crate) field: String,
    /// Why.
    #[serde(alias = "message")]
    pub(crate) detail: String,
}

impl Problem {
    /// What the caller can do about it, when that is known.
    fn advice(&self) -> Option<&'static str> {
        match (self.status, self.code.as_str()) {
            (401, _) => Some("set SUNABA_TOKEN, or use the data directory of the server (--data)"),
            (403, _) => Some("use a token that may do this (`sunaba token create`)"),
            (404, "sandbox_not_found") => Some("`sunaba ps --all` lists what there is"),
            (429, "message_queue_full") => Some("wait until the agent has taken some of its messages"),
            (429 | 503, _) => Some("try again in a moment"),
            (500.., _) => Some("the server's log says more"),
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = if self.detail.is_empty() { &self.title } else { &self.detail };
        f.write_str(said.trim_end_matches('.'))?;
        for error in &self.errors {
            write!(f, "; {}: {}", error.field, error.detail)?;
        }
        if self.code.is_empty() {
            write!(f, " (status {})", self.status)?;
        } else {
            write!(f, " ({})", self.code)?;
        }
        match self.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked wrongly.
    Usage(String),
    /// The server cannot be reached.
    Unreachable(String),
    /// The server said no.
    Refused(Box<Problem>),
    /// Anything else.
    Other(anyhow::Error),
}

/// The result of a command.
pub(crate) type Outcome<T = ExitCode> = Result<T, Failure>;

impl Failure {
    /// It was asked wrongly.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Anything else.
    pub(crate) fn other(text: impl Into<String>) -> Self {
        Self::Other(anyhow::Error::msg(text.into()))
    }

    /// The exit code that says so.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Other(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Unreachable(text) => f.write_str(text),
            Self::Refused(problem) => problem.fmt(f),
            Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Other(error.into())
    }
}

impl From<crate::config::ConfigError> for Failure {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: &str) -> String {
        Failure::Refused(Box::new(serde_json::from_str(json).unwrap())).to_string()
    }

    #[test]
    fn a_problem_is_one_clear_line() {
        assert_eq!(
            line(
                r#"{"status":404,"code":"sandbox_not_found","title":"Not found","detail":"There is no sandbox x."}"#
            ),
            "There is no sandbox x (sandbox_not_found); `sunaba ps --all` lists what there is"
        );
        assert_eq!(
            line(
                r#"{"status":422,"code":"invalid","title":"Invalid","errors":[{"field":"content","detail":"is empty"}]}"#
            ),
            "Invalid; content: is empty (invalid)"
        );
    }

    #[test]
    fn exit_codes_tell_the_kinds_apart() {
        assert_eq!(Failure::usage("x").exit_code(), 2);
        assert_eq!(Failure::Unreachable("x".into()).exit_code(), 3);
        assert_eq!(Failure::other("x").exit_code(), 1);
    }
}
