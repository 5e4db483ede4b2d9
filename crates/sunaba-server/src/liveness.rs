//! Remembers which sandboxes were heard without writing an event, and tells the store in bulk.
//!
//! An event moves its sandbox's `alive_until` in its own transaction. Polls,
//! blobs and gateway calls do not write, so they are gathered here and written
//! every few seconds: one small write for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sunaba_store::Store;
use sunaba_types::{Clock, SandboxId, Timestamp};
use tokio_util::sync::CancellationToken;

const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Who was heard.
#[derive(Debug, Clone)]
pub(crate) struct Liveness {
    heard: Arc<Mutex<HashMap<SandboxId, Timestamp>>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl Liveness {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { heard: Arc::default(), store, clock }
    }

    /// Notes that a sandbox was heard now.
    pub(crate) fn heard(&self, sandbox_id: &SandboxId) {
        let now = self.clock.now();
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        match heard.get_mut(sandbox_id) {
            Some(at) => *at = now,
            // Bounded by the number of sandbox tokens that open something.
            None => drop(heard.insert(sandbox_id.clone(), now)),
        }
    }

    /// Tells the store now and then, and once more at the end.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        loop {
            let ending = tokio::select! {
                () = shutdown.cancelled() => true,
                () = tokio::time::sleep(FLUSH_EVERY) => false,
            };
            self.flush().await;
            if ending {
                return;
            }
        }
    }

    async fn flush(&self) {
        let heard: Vec<(SandboxId, Timestamp)> =
            std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
                .into_iter()
                .collect();
        if heard.is_empty() {
            return;
        }
        let told = tokio::time::timeout(FLUSH_EVERY, self.store.touch_sandboxes(&heard)).await;
        if let Ok(Err(error)) = told {
            tracing::warn!(%error, sandboxes = heard.len(), "could not record who was heard");
        }
    }
}
