//! Removes what nobody owns any more: copies of conversations that another node took, and has newer ones of since.
//!
//! Whoever takes a conversation removes the one before it; who has a copy of that is not told.

use std::sync::Arc;
use std::time::Duration;

use sunaba_store::Store;
use sunaba_types::BlobHash;
use tokio_util::sync::CancellationToken;

use super::BlobFiles;

const EVERY: Duration = Duration::from_secs(60 * 60);
/// What is younger may still be asked for by whoever wanted it here.
const LEFT_ALONE: Duration = Duration::from_secs(10 * 60);

impl BlobFiles {
    /// Looks once an hour until the server stops.
    pub(crate) async fn sweep_now_and_then(self, store: Arc<dyn Store>, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let removed = tokio::select! {
                () = shutdown.cancelled() => return,
                removed = self.sweep(&*store, LEFT_ALONE) => removed,
            };
            if removed > 0 {
                tracing::info!(removed, "removed blobs that are nobody's any more");
            }
        }
    }

    /// Removes files without an owner that are older than so; how many.
    pub(crate) async fn sweep(&self, store: &dyn Store, older_than: Duration) -> usize {
        let old = self.older(older_than).await;
        let mut removed = 0;
        if !knows_any(store, &old).await {
            // A store that knows none of them is more likely the wrong one, or a new one.
            return 0;
        }
        for hash in old {
            let is_owned = async || store.blob_owners(&hash).await.map(|owners| !owners.is_empty());
            // Asked again where nobody can become an owner in between; unknown owners are owners.
            if !is_owned().await.unwrap_or(true) && self.remove_unless(&hash, is_owned()).await {
                removed += 1;
            }
        }
        removed
    }

    async fn older(&self, than: Duration) -> Vec<BlobHash> {
        let root = self.root().to_owned();
        let listed = tokio::task::spawn_blocking(move || {
            let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
            let files =
                folders.filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten();
            let age = |file: &std::fs::DirEntry| file.metadata().ok()?.modified().ok()?.elapsed().ok();
            let old = files.filter(|file| age(file).is_some_and(|age| age >= than));
            old.filter_map(|file| BlobHash::parse(file.file_name().to_str()?)).collect()
        });
        listed.await.unwrap_or_default()
    }
}

/// Whether the store knows the owner of at least one of them.
async fn knows_any(store: &dyn Store, hashes: &[BlobHash]) -> bool {
    for hash in hashes {
        if store.blob_owners(hash).await.is_ok_and(|owners| !owners.is_empty()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sunaba_store::Writer;
    use sunaba_types::SystemClock;

    use super::*;

    #[tokio::test]
    async fn what_nobody_owns_goes_and_what_is_young_or_owned_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = sunaba_testkit::open_store(dir.path(), Arc::new(SystemClock)).await;
        let files = BlobFiles::new(dir.path().join("blobs"));
        let (owned, _) = files.put(Bytes::from_static(b"owned")).await.unwrap();
        store.record_blob(&owned, 5, None, Writer::Operator).await.unwrap();
        let (copy, _) = files.put(Bytes::from_static(b"a copy")).await.unwrap();
        assert_eq!(files.sweep(&*store, LEFT_ALONE).await, 0, "it has just come");
        assert_eq!(files.sweep(&*store, Duration::ZERO).await, 1);
        assert!(files.open_here(&copy).await.unwrap().is_none());
        assert!(files.open_here(&owned).await.unwrap().is_some());
    }
}
