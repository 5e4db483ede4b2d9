//! Waiting for things, never for time.

use std::future::Future;
use std::time::Duration;

/// How long anything may take in a test.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for something; panics with `what` if it does not come in time.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// Asks again and again until the answer is yes.
pub async fn eventually<F, Fut>(what: &str, mut ask: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    within(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
