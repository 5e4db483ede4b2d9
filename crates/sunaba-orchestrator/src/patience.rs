//! Waiting out a store that is away.
//!
//! A store outage says nothing about a sandbox, so it must not decide one: what the orchestrator has to
//! read or record waits until the store is back. The wait ends with the driver, when the server stops.

use std::future::Future;
use std::time::Duration;

use sunaba_store::{Error, Result};

/// How long to wait before a call is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// Repeats `call` until the store answers, whatever it answers.
pub(crate) async fn patiently<T, F>(mut call: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    loop {
        match call().await {
            Err(Error::Unavailable(error)) => {
                tracing::warn!(%error, "the store is away; waiting for it");
                tokio::time::sleep(RETRY).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn an_outage_is_waited_out_and_a_refusal_is_not() {
        let calls = Cell::new(0);
        let answer = patiently(|| {
            calls.set(calls.get() + 1);
            let away = calls.get() < 3;
            async move { if away { Err(Error::Unavailable("away".into())) } else { Ok(7) } }
        });
        assert_eq!(answer.await.unwrap(), 7);
        assert_eq!(calls.get(), 3);

        let refused = patiently(|| async { Err::<(), _>(Error::conflict("no", "never")) }).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })));
    }
}
