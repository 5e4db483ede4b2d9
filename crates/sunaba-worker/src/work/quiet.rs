//! Whether the gateway still answers a model call of this sandbox.

use std::time::Duration;

use serde::Deserialize;

use super::http::{Answer, Error};
use super::report::Reporter;

/// How long the gateway may take to see that a call is over.
const WAIT_SECONDS: u64 = 2;
/// For its answer. A server that is away does not keep an agent from being idle.
const PATIENCE: Duration = Duration::from_secs(WAIT_SECONDS + 1);

#[derive(Debug, Deserialize)]
struct Calls {
    open_calls: usize,
}

/// Waits until the gateway has no call any more, and has recorded the last one; not for long.
pub(super) async fn until_no_call(reporter: &Reporter) {
    match ask(reporter).await {
        Ok(answer) => match serde_json::from_slice(&answer.body) {
            Ok(Calls { open_calls: 0 }) => {}
            Ok(Calls { open_calls }) => tracing::warn!(open_calls, "a model call did not end with its agent"),
            // A server that does not know the question yet.
            Err(_) => tracing::debug!(status = %answer.status, "nobody says whether a model call is open"),
        },
        Err(error) => tracing::warn!(%error, "nobody says whether a model call is open"),
    }
}

async fn ask(reporter: &Reporter) -> Result<Answer, Error> {
    reporter.client()?.get(&format!("/gateway/idle?wait={WAIT_SECONDS}"), PATIENCE).await
}
