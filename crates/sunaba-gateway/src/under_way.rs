//! Which sandboxes have model calls under way: who says that an agent is idle looks here first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sunaba_types::SandboxId;
use tokio::sync::Notify;

/// The calls of all sandboxes that have any.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Mutex<HashMap<SandboxId, usize>>,
    ended: Notify,
}

/// A call under way; over, and recorded, when it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    calls: Arc<Calls>,
    sandbox_id: SandboxId,
}

impl Calls {
    /// A call has arrived.
    pub(crate) fn begin(self: &Arc<Self>, sandbox_id: &SandboxId) -> UnderWay {
        *self.open().entry(sandbox_id.clone()).or_default() += 1;
        UnderWay { calls: Arc::clone(self), sandbox_id: sandbox_id.clone() }
    }

    /// How many a sandbox has.
    pub(crate) fn count(&self, sandbox_id: &SandboxId) -> usize {
        self.open().get(sandbox_id).copied().unwrap_or_default()
    }

    /// Waits until a sandbox has none.
    pub(crate) async fn until_none(&self, sandbox_id: &SandboxId) {
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            // Before the look, so that no end falls between the two.
            ended.as_mut().enable();
            if self.count(sandbox_id) == 0 {
                return;
            }
            ended.await;
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SandboxId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut open = self.calls.open();
        if let Some(count) = open.get_mut(&self.sandbox_id) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.sandbox_id);
            }
        }
        drop(open);
        self.calls.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_waits_is_told_of_the_last_end_and_not_of_an_earlier_one() {
        let calls = Arc::<Calls>::default();
        let (one, other) = (SandboxId::generate(), SandboxId::generate());
        let (first, second, elsewhere) = (calls.begin(&one), calls.begin(&one), calls.begin(&other));
        let mut waiting = std::pin::pin!(calls.until_none(&one));
        drop(first);
        assert!(tokio::time::timeout(Duration::from_millis(20), waiting.as_mut()).await.is_err());
        drop(second);
        assert!(tokio::time::timeout(Duration::from_secs(5), waiting).await.is_ok());
        assert_eq!((calls.count(&one), calls.count(&other)), (0, 1), "another's call is nobody's business");
        drop(elsewhere);
        assert!(calls.open().is_empty(), "nothing is kept for a sandbox that asks nothing");
    }
}
