//! Remembers which sandboxes were heard without writing an event, and tells the store in bulk.
//!
//! An event moves its sandbox's `alive_until` in its own transaction. Polls,
//! blobs and gateway calls do not write, so they are gathered here and written
//! every few seconds: one small write for all of them.
//!
//! Whoever looks after a sandbox also asks here, by [`Liveness::signs`]: a store
//! that is full and a clock that jumps back keep `alive_until` where it is, and
//! the sandbox was heard all the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sunaba_store::Store;
use sunaba_types::{Clock, SandboxId, Timestamp};
use tokio_util::sync::CancellationToken;

const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// Who was heard.
#[derive(Debug, Clone)]
pub struct Liveness {
    heard: Arc<Mutex<Heard>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Heard {
    /// Who was heard and when, since the store was told. Bounded by the number of sandbox tokens that open something.
    untold: HashMap<SandboxId, Timestamp>,
    /// How often those were heard that somebody asks about. Bounded by the sandboxes that are looked after here.
    signs: HashMap<SandboxId, u64>,
}

impl Liveness {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { heard: Arc::default(), store, clock }
    }

    /// Notes that a sandbox was heard now.
    pub(crate) fn heard(&self, sandbox_id: &SandboxId) {
        let now = self.clock.now();
        let mut heard = self.lock();
        match heard.untold.get_mut(sandbox_id) {
            Some(at) => *at = now,
            None => drop(heard.untold.insert(sandbox_id.clone(), now)),
        }
        if let Some(signs) = heard.signs.get_mut(sandbox_id) {
            *signs += 1;
        }
    }

    /// How often this server has heard a sandbox since it was first asked.
    pub fn signs(&self, sandbox_id: &SandboxId) -> u64 {
        *self.lock().signs.entry(sandbox_id.clone()).or_default()
    }

    /// Nobody asks about this sandbox any more.
    pub fn forget(&self, sandbox_id: &SandboxId) {
        self.lock().signs.remove(sandbox_id);
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
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
            std::mem::take(&mut self.lock().untold).into_iter().collect();
        if heard.is_empty() {
            return;
        }
        match tokio::time::timeout(FLUSH_EVERY, self.store.touch_sandboxes(&heard)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, sandboxes = heard.len(), "could not record who was heard");
                self.keep(heard);
            }
            Err(_) => self.keep(heard),
        }
    }

    /// Tells it the next time: on another server somebody may take these for silent.
    fn keep(&self, heard: Vec<(SandboxId, Timestamp)>) {
        let mut held = self.lock();
        for (id, at) in heard {
            // Who was heard since then has a later time already.
            held.untold.entry(id).or_insert(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use sunaba_types::FakeClock;

    use super::*;

    #[tokio::test]
    async fn signs_are_counted_for_who_asks_and_what_was_not_told_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FakeClock::at(Timestamp::UNIX_EPOCH));
        let store = sunaba_testkit::open_store(dir.path(), clock.clone()).await;
        let (liveness, id) = (Liveness::new(store, clock.clone()), SandboxId::generate());
        liveness.heard(&id);
        assert_eq!(liveness.signs(&id), 0, "nobody had asked");
        liveness.heard(&id);
        liveness.heard(&id);
        assert_eq!(liveness.signs(&id), 2);
        liveness.forget(&id);
        liveness.heard(&id);
        assert_eq!(liveness.signs(&id), 0);

        let (early, other) = (clock.now(), SandboxId::generate());
        clock.advance(Duration::from_secs(5).try_into().unwrap());
        liveness.heard(&id);
        // The store was away.
        liveness.keep(vec![(id.clone(), early), (other.clone(), early)]);
        let untold = liveness.lock().untold.clone();
        assert_eq!((untold[&id], untold[&other]), (clock.now(), early));
        liveness.flush().await;
        assert!(liveness.lock().untold.is_empty());
    }
}
