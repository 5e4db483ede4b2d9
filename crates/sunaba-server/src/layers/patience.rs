//! How long a request may take, by what it asks for.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::poll;
use http::Method;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::internal::is_internal;

/// Waits for something, but only so long. What is there at once costs no timer, and a timer has a place of its own:
/// it would make whatever holds it large.
pub(crate) async fn timely<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    if let Poll::Ready(output) = poll!(future.as_mut()) {
        return Ok(output);
    }
    Box::pin(timeout(limit, future)).await
}

/// How long to wait for an answer's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as the configuration says.
    Ordinary,
    /// A walk over a whole log or repository, or a large upload.
    Long(Duration),
    /// Streams, long polls, the gateway and the log keep their own time.
    Own,
}

const LONG: Duration = Duration::from_secs(10 * 60);

impl Patience {
    /// What the path deserves (after a token in it has been cut out).
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        // Another node has its own patience, and says so by going away.
        if is_internal(path)
            || path.starts_with("/gateway/")
            || path == "/api/v1/ws/events"
            || path.ends_with("/events/stream")
        {
            return Self::Own;
        }
        let polls = path.ends_with("/messages") || path.contains("/questions/");
        if method == Method::GET && polls {
            return Self::Own;
        }
        // The store answers in time or gives up by itself, and a second timer would cost an event more than its parsing.
        if method == Method::POST && (path.ends_with("/events") || path.ends_with("/events/batch")) {
            return Self::Own;
        }
        let walks = ["/verify", "/diff", "/files", "/blobs"].iter().any(|end| path.ends_with(end))
            || path.contains("/transcripts/");
        if walks { Self::Long(LONG) } else { Self::Ordinary }
    }
}
