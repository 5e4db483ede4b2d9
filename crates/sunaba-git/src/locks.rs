//! One lock a project, so that a push and whatever takes a sandbox's right to push away exclude each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{Error, Result};

/// The git locks of all projects of this server. Shared by everything that writes to mirrors.
#[derive(Debug, Default)]
pub struct ProjectLocks {
    held: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

impl ProjectLocks {
    /// Waits for a project's lock; it is free again when the guard is dropped.
    pub async fn lock(&self, project: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks that nobody holds or waits for are forgotten, so that the map stays small.
            held.retain(|_, lock| lock.strong_count() > 0);
            match held.get(project).and_then(Weak::upgrade) {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(AsyncMutex::new(()));
                    held.insert(project.to_owned(), Arc::downgrade(&lock));
                    lock
                }
            }
        };
        lock.lock_owned().await
    }

    /// The same, for as long as the caller can wait.
    pub async fn lock_within(&self, project: &str, patience: Duration) -> Result<OwnedMutexGuard<()>> {
        let busy = |_| Error::Busy { seconds: patience.as_secs() };
        tokio::time::timeout(patience, self.lock(project)).await.map_err(busy)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_project_waits_for_itself_only() {
        let locks = ProjectLocks::default();
        let first = locks.lock("a").await;
        assert!(locks.lock("a").now_or_never().is_none());
        assert!(locks.lock("b").now_or_never().is_some());
        let waited = locks.lock_within("a", Duration::from_millis(5)).await;
        assert!(matches!(waited, Err(Error::Busy { .. })));
        drop(first);
        assert!(locks.lock("a").now_or_never().is_some());
    }
}
