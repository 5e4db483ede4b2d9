//! Where the results of setup commands are kept: `<root>/<project>/<key>/{home,workspace,layer.json}`.
//!
//! A result is made under another name, written through to the disk and renamed, so that a crash leaves a whole
//! one or none. A sandbox that uses one leaves its id in `users/`; what nobody uses goes by age and size.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use sunaba_git::ProjectLocks;
use sunaba_types::{ProjectId, SandboxId};
use tokio::sync::OwnedMutexGuard;

const FACTS: &str = "layer.json";
const USERS: &str = "users";
const UNFINISHED: &str = ".new-";
const LEAVING: &str = ".gone-";
/// So long a command that gave nothing is not tried again.
const REMEMBER: Duration = Duration::from_secs(600);
/// How many such commands are remembered; at the bound all are forgotten, and tried again.
const REMEMBER_MAX: usize = 1000;

/// What is written down about a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The command that made it.
    pub(super) command: String,
    /// The paths in the workspace that come from it.
    pub(super) tops: Vec<String>,
    /// Its size.
    pub(super) bytes: u64,
}

/// A result that is laid under a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Laid {
    /// The tree for the home.
    pub(crate) home: PathBuf,
    /// The tree for the workspace.
    pub(crate) workspace: PathBuf,
    /// The paths in the workspace that come from it.
    pub(crate) tops: Vec<String>,
}

/// Why a command gave nothing lately.
#[derive(Debug, Clone)]
pub(super) struct Nothing {
    pub(super) payload: serde_json::Value,
    at: Instant,
}

/// The results of setup commands.
#[derive(Debug)]
pub struct Shelf {
    root: PathBuf,
    locks: ProjectLocks,
    /// Results that are being made.
    busy: Mutex<HashSet<String>>,
    gave_nothing: Mutex<HashMap<String, Nothing>>,
    /// Setup sandboxes that belong to this process.
    runs: Mutex<HashSet<SandboxId>>,
}

impl Shelf {
    /// A shelf in this directory, which need not exist.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            locks: ProjectLocks::default(),
            busy: Mutex::default(),
            gave_nothing: Mutex::default(),
            runs: Mutex::default(),
        }
    }

    fn place(&self, project: &ProjectId, key: &str) -> PathBuf {
        self.root.join(project.as_str()).join(key)
    }

    /// Waits for the turn to look at or make a result.
    pub(super) async fn turn(&self, project: &ProjectId, key: &str) -> OwnedMutexGuard<()> {
        self.locks.lock(&format!("{project}/{key}")).await
    }

    /// The result, marked as used by this sandbox. The caller has the turn.
    pub(super) fn take_locked(
        &self,
        project: &ProjectId,
        key: &str,
        user: &SandboxId,
        now: SystemTime,
    ) -> io::Result<Option<Laid>> {
        let place = self.place(project, key);
        let Some(facts) = read_facts(&place)? else { return Ok(None) };
        fs::create_dir_all(place.join(USERS))?;
        fs::write(place.join(USERS).join(user.as_str()), "")?;
        // The time of the last use is that of the file.
        fs::File::options().write(true).open(place.join(FACTS))?.set_modified(now)?;
        Ok(Some(Laid { home: place.join("home"), workspace: place.join("workspace"), tops: facts.tops }))
    }

    /// Begins a result under another name. The caller has the turn.
    pub(super) fn begin_locked(&self, project: &ProjectId, key: &str) -> io::Result<Unfinished<'_>> {
        let folder = self.root.join(project.as_str());
        fs::create_dir_all(&folder)?;
        let draft = folder.join(format!("{UNFINISHED}{key}"));
        remove(&draft)?;
        held(&self.busy).insert(draft_name(project, key));
        fs::create_dir(&draft)?;
        Ok(Unfinished { shelf: self, name: draft_name(project, key), draft, place: self.place(project, key) })
    }

    /// Remembers for a while that a command gives nothing.
    pub(super) fn remember(&self, key: &str, payload: serde_json::Value) {
        let mut gave_nothing = held(&self.gave_nothing);
        if gave_nothing.len() >= REMEMBER_MAX {
            gave_nothing.clear();
        }
        gave_nothing.insert(key.to_owned(), Nothing { payload, at: Instant::now() });
    }

    /// What is remembered of a command that gave nothing.
    pub(super) fn recall(&self, key: &str) -> Option<Nothing> {
        let known = held(&self.gave_nothing).get(key).cloned();
        known.filter(|nothing| nothing.at.elapsed() < REMEMBER)
    }

    /// Notes that a setup sandbox belongs to this process until the mark is dropped.
    pub(super) fn running(&self, id: SandboxId) -> Run<'_> {
        held(&self.runs).insert(id.clone());
        Run { shelf: self, id }
    }

    /// Whether a setup sandbox belongs to this process; one of an earlier process is a leftover.
    pub(crate) fn is_running(&self, id: &SandboxId) -> bool {
        held(&self.runs).contains(id)
    }

    /// Who uses anything here, as far as is written down.
    pub(crate) fn users(&self) -> HashSet<SandboxId> {
        let users = self.results().into_iter().flat_map(|(_, _, place)| names(&place.join(USERS)));
        users.filter_map(|name| SandboxId::parse(name).ok()).collect()
    }

    /// Removes what crashes left, and what nobody in `living` uses and is too old or too much.
    pub(crate) async fn clear(
        &self,
        living: &HashSet<SandboxId>,
        now: SystemTime,
        max_age: Duration,
        max_bytes: u64,
    ) {
        self.remove_unfinished();
        let mut unused = Vec::new();
        let mut total = 0u64;
        for (project, key, place) in self.results() {
            let Ok(Some(facts)) = read_facts(&place) else {
                log_failure("remove", remove(&place));
                continue;
            };
            total = total.saturating_add(facts.bytes);
            let mut in_use = false;
            for user in names(&place.join(USERS)) {
                if SandboxId::parse(user.clone()).is_ok_and(|id| living.contains(&id)) {
                    in_use = true;
                } else {
                    let _ = fs::remove_file(place.join(USERS).join(user));
                }
            }
            if !in_use {
                unused.push((used_ago(&place, now), facts.bytes, project, key, place));
            }
        }
        unused.sort_by_key(|(ago, ..)| std::cmp::Reverse(*ago));
        for (ago, bytes, project, key, place) in unused {
            if (ago > max_age || total > max_bytes) && self.remove_unused(&project, &key, &place).await {
                total = total.saturating_sub(bytes);
            }
        }
    }

    /// Removes a result unless somebody has begun to use it.
    async fn remove_unused(&self, project: &str, key: &str, place: &Path) -> bool {
        let _turn = self.locks.lock(&format!("{project}/{key}")).await;
        if !names(&place.join(USERS)).is_empty() {
            return false;
        }
        let leaving = place.with_file_name(format!("{LEAVING}{key}"));
        let gone = fs::rename(place, &leaving);
        tracing::info!(project, key, "removed what a setup command made; nobody used it");
        log_failure("remove", gone.and_then(|()| remove(&leaving)))
    }

    fn remove_unfinished(&self) {
        for project in names(&self.root) {
            for name in names(&self.root.join(&project)) {
                let of_crash = name
                    .strip_prefix(UNFINISHED)
                    .is_some_and(|key| !held(&self.busy).contains(&format!("{project}/{key}")));
                if of_crash || name.starts_with(LEAVING) {
                    log_failure("remove", remove(&self.root.join(&project).join(name)));
                }
            }
        }
    }

    fn results(&self) -> Vec<(String, String, PathBuf)> {
        let mut found = Vec::new();
        for project in names(&self.root) {
            for key in names(&self.root.join(&project)).into_iter().filter(|name| !name.starts_with('.')) {
                let place = self.root.join(&project).join(&key);
                found.push((project.clone(), key, place));
            }
        }
        found
    }
}

/// A setup sandbox of this process.
#[derive(Debug)]
pub(super) struct Run<'a> {
    shelf: &'a Shelf,
    id: SandboxId,
}

impl Run<'_> {
    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        held(&self.shelf.runs).remove(&self.id);
    }
}

/// A result that is being made; gone when dropped before it is published.
#[derive(Debug)]
pub(super) struct Unfinished<'a> {
    shelf: &'a Shelf,
    name: String,
    draft: PathBuf,
    place: PathBuf,
}

impl Unfinished<'_> {
    pub(super) fn dir(&self) -> &Path {
        &self.draft
    }

    /// Gives it its name, once it is [`settle`]d.
    pub(super) fn publish(self) -> io::Result<()> {
        fs::rename(&self.draft, &self.place)?;
        fs::File::open(self.place.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        log_failure("remove", remove(&self.draft));
        held(&self.shelf.busy).remove(&self.name);
    }
}

/// Writes down what is known of a result and everything through to the disk.
pub(super) fn settle(draft: &Path, facts: &Facts) -> io::Result<()> {
    fs::write(draft.join(FACTS), serde_json::to_vec(facts)?)?;
    Ok(rustix::fs::syncfs(fs::File::open(draft)?)?)
}

fn draft_name(project: &ProjectId, key: &str) -> String {
    format!("{project}/{key}")
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_facts(place: &Path) -> io::Result<Option<Facts>> {
    match fs::read(place.join(FACTS)) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn log_failure(what: &str, result: io::Result<()>) -> bool {
    if let Err(error) = &result {
        tracing::warn!(%error, "cannot {what} what a setup command made");
    }
    result.is_ok()
}

fn used_ago(place: &Path, now: SystemTime) -> Duration {
    let used = fs::metadata(place.join(FACTS)).and_then(|facts| facts.modified());
    used.ok().and_then(|used| now.duration_since(used).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(bytes: u64) -> Facts {
        Facts { command: "make".into(), tops: vec!["out".into()], bytes }
    }

    fn made(shelf: &Shelf, project: &ProjectId, key: &str, bytes: u64) {
        let draft = shelf.begin_locked(project, key).unwrap();
        fs::create_dir(draft.dir().join("home")).unwrap();
        settle(draft.dir(), &facts(bytes)).unwrap();
        draft.publish().unwrap();
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn a_crash_leaves_no_half_a_result() {
        let root = tempfile::tempdir().unwrap();
        let (project, user) = (ProjectId::generate(), SandboxId::generate());
        let shelf = Shelf::new(root.path().to_owned());
        let draft = shelf.begin_locked(&project, "k").unwrap();
        fs::create_dir(draft.dir().join("home")).unwrap();
        std::mem::forget(draft);
        assert_eq!(shelf.take_locked(&project, "k", &user, at(1)).unwrap(), None);
        // While it is being made it stays; the next process removes it.
        shelf.clear(&HashSet::new(), at(1), Duration::MAX, u64::MAX).await;
        assert!(root.path().join(project.as_str()).join(".new-k").exists());
        let next = Shelf::new(root.path().to_owned());
        next.clear(&HashSet::new(), at(1), Duration::MAX, u64::MAX).await;
        assert!(!root.path().join(project.as_str()).join(".new-k").exists());
    }

    #[tokio::test]
    async fn what_is_used_stays_and_the_rest_goes_by_age_and_size() {
        let root = tempfile::tempdir().unwrap();
        let (project, user) = (ProjectId::generate(), SandboxId::generate());
        let shelf = Shelf::new(root.path().to_owned());
        for (key, used) in [("a", 100), ("b", 200), ("c", 300)] {
            made(&shelf, &project, key, 10);
            let laid = shelf.take_locked(&project, key, &user, at(used)).unwrap().unwrap();
            assert_eq!(laid.tops, ["out"]);
        }
        assert_eq!(shelf.users(), HashSet::from([user.clone()]));
        let left = || {
            let mut left = names(&root.path().join(project.as_str()));
            left.sort();
            left
        };
        shelf.clear(&HashSet::from([user]), at(10_000), Duration::ZERO, 0).await;
        assert_eq!(left(), ["a", "b", "c"], "a living sandbox uses them");
        shelf.clear(&HashSet::new(), at(310), Duration::from_secs(1000), 20).await;
        assert_eq!(left(), ["b", "c"], "the one used longest ago goes first");
        shelf.clear(&HashSet::new(), at(310), Duration::from_secs(50), 100).await;
        assert_eq!(left(), ["c"]);
    }
}
