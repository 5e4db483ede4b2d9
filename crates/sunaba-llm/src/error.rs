//! What can go wrong in a model call, and whether another try may help.

use std::time::Duration;

use crate::SseError;

/// Why a model call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL cannot be used.
    #[error("base URL {url:?} cannot be used: {reason}")]
    BaseUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The API key cannot stand in a header.
    #[error("the API key has characters that a header cannot carry")]
    ApiKey,
    /// The request could not be put together.
    #[error("request cannot be encoded")]
    Encode(#[source] serde_json::Error),
    /// No connection came about.
    #[error("no connection to {address}")]
    Connect {
        /// Where to.
        address: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("connection broke")]
    Transport(#[source] hyper::Error),
    /// Nothing came for too long.
    #[error("nothing came for {} s while {waiting_for}", after.as_secs_f32())]
    Timeout {
        /// What was waited for.
        waiting_for: &'static str,
        /// How long.
        after: Duration,
    },
    /// The API answered with an error.
    #[error("{kind}{}: {message}", status.map(|code| format!(" (status {code})")).unwrap_or_default())]
    Api {
        /// The HTTP status; none when the error came inside a stream.
        status: Option<u16>,
        /// The API's name for the error, such as `overloaded_error`.
        kind: String,
        /// What it says.
        message: String,
        /// How long the other side asks to wait.
        retry_after: Option<Duration>,
        /// Whether the other side says that another try helps, or does not.
        should_retry: Option<bool>,
    },
    /// The stream ended before the answer was whole.
    #[error("the stream ended before the answer was whole")]
    Truncated,
    /// What came is not what the API promises.
    #[error("malformed stream: {0}")]
    Malformed(String),
    /// The answer is larger than anything sensible.
    #[error("the answer is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The bound.
        limit_bytes: usize,
    },
}

impl Error {
    /// Whether the same request may succeed when it is sent again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::BaseUrl { .. } | Self::ApiKey | Self::Encode(_) | Self::TooLarge { .. } => false,
            Self::Connect { .. }
            | Self::Transport(_)
            | Self::Timeout { .. }
            | Self::Truncated
            | Self::Malformed(_) => true,
            Self::Api { status, kind, should_retry, .. } => {
                should_retry.unwrap_or_else(|| is_transient(*status, kind))
            }
        }
    }

    /// How long the other side asks to wait before another try.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Api { retry_after, .. } = self { *retry_after } else { None }
    }
}

fn is_transient(status: Option<u16>, kind: &str) -> bool {
    match status {
        Some(code) => matches!(code, 408 | 429 | 500..=599),
        None => matches!(kind, "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error"),
    }
}

impl From<SseError> for Error {
    fn from(error: SseError) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(status: Option<u16>, kind: &str, should_retry: Option<bool>) -> Error {
        Error::Api { status, kind: kind.to_owned(), message: String::new(), retry_after: None, should_retry }
    }

    #[test]
    fn only_what_may_pass_is_retried() {
        for code in [408, 429, 500, 502, 503, 529] {
            assert!(api(Some(code), "x", None).is_retryable(), "{code}");
        }
        for code in [400, 401, 403, 404, 413, 422] {
            assert!(!api(Some(code), "x", None).is_retryable(), "{code}");
        }
        assert!(api(None, "overloaded_error", None).is_retryable());
        assert!(!api(None, "invalid_request_error", None).is_retryable());
    }

    #[test]
    fn the_other_side_has_the_last_word_on_retrying() {
        assert!(!api(Some(429), "rate_limit_error", Some(false)).is_retryable());
        assert!(api(Some(409), "conflict", Some(true)).is_retryable());
    }
}
