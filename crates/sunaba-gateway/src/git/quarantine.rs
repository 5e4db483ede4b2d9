//! What a push unfolds to. Git puts its objects into a directory of their own until it accepts them: a small pack
//! may become much there, so it is looked at while git works.
//!
//! Whoever uses this holds the project's lock: there is one push at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How such a directory's name begins.
const PREFIX: &str = "tmp_objdir-";
/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// How long git may take to clear up after itself when it is ended.
pub(super) const GRACE: Duration = Duration::from_secs(6);

/// The place where a mirror's pushes wait.
#[derive(Debug)]
pub(super) struct Quarantine {
    objects: PathBuf,
    /// The most that was seen there.
    pub(super) most_bytes: u64,
}

impl Quarantine {
    pub(super) fn of(mirror: &Path) -> Self {
        Self { objects: mirror.join("objects"), most_bytes: 0 }
    }

    /// Looks again and again; returns what is wrong once `judge` says that something is.
    pub(super) async fn watch(&mut self, judge: impl Fn(u64) -> Result<(), String>) -> String {
        loop {
            tokio::time::sleep(EVERY).await;
            let objects = self.objects.clone();
            let seen =
                tokio::task::spawn_blocking(move || waiting(&objects).iter().map(|dir| size(dir)).sum());
            self.most_bytes = self.most_bytes.max(seen.await.unwrap_or(0));
            if let Err(words) = judge(self.most_bytes) {
                return words;
            }
        }
    }

    /// Waits until a git that was ended has cleared up, and does it where it did not.
    pub(super) async fn clear(&self, grace: Duration) {
        let deadline = tokio::time::Instant::now() + grace;
        while !waiting(&self.objects).is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(EVERY).await;
        }
        for left in waiting(&self.objects) {
            if let Err(error) = fs::remove_dir_all(&left) {
                tracing::warn!(%error, path = %left.display(), "what a refused push left could not be removed");
            }
        }
    }
}

fn waiting(objects: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(objects).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    ours.map(|entry| entry.path()).collect()
}

/// What lies below a directory. What goes away meanwhile counts for nothing.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_is_judged_and_cleared() {
        let mirror = tempfile::tempdir().unwrap();
        let dir = mirror.path().join("objects/tmp_objdir-incoming-x/pack");
        fs::create_dir_all(&dir).unwrap();
        fs::create_dir_all(mirror.path().join("objects/pack")).unwrap();
        fs::write(mirror.path().join("objects/pack/kept"), [0; 1000]).unwrap();
        fs::write(dir.join("tmp_pack_1"), [0; 3000]).unwrap();
        let mut quarantine = Quarantine::of(mirror.path());
        let judge = |bytes| if bytes > 2999 { Err(format!("{bytes}")) } else { Ok(()) };
        assert_eq!(quarantine.watch(judge).await, "3000");
        quarantine.clear(Duration::ZERO).await;
        assert!(!mirror.path().join("objects/tmp_objdir-incoming-x").exists());
        assert!(mirror.path().join("objects/pack/kept").exists());
    }
}
