//! What the last transactions knew of sandboxes when they were committed.
//!
//! Nearly every transaction is about sandboxes that the one before was about too. What is remembered of them decides
//! nothing: it spares questions, and counts only if the database still says the same. Events that cause nothing are
//! written by one statement that compares the log's last hash, and the task's attempt and state, with what is
//! remembered ([`super::Plain`]). Whoever reads under locks compares the row's version and the last hash.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sunaba_store_sql::draft::{Draft, LoadedSandbox};
use sunaba_types::{SandboxId, SandboxState, Task};

/// How many are remembered.
const MOST: usize = 1024;
/// Rows with longer texts are not: memory stays bounded.
const TEXT_MAX: usize = 16 * 1024;

/// Which transactions wrote rows of sandboxes, as far as that is known.
pub(super) type Versions = HashMap<SandboxId, i64>;

/// A sandbox and its task as a transaction left them.
#[derive(Debug)]
pub(super) struct KnownSandbox {
    /// Nothing of it is to be written.
    pub(super) loaded: Box<LoadedSandbox>,
    /// The transaction that wrote the row so, if that is known.
    pub(super) version: Option<i64>,
    task: Option<Task>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<SandboxId, KnownSandbox>>);

impl Recent {
    /// Takes what is known of a sandbox; whoever commits puts it back.
    pub(super) fn take(&self, id: &SandboxId) -> Option<KnownSandbox> {
        self.held().remove(id)
    }

    /// Makes sandboxes known to a transaction as they are remembered, if all of them are; whoever commits puts them
    /// back.
    pub(super) fn recall<'a>(
        &self,
        ids: impl Iterator<Item = &'a SandboxId> + Clone,
        draft: &mut Draft,
    ) -> Option<Versions> {
        let mut held = self.held();
        // One that is being made or over is changed by any event.
        let is_at_work = |known: &KnownSandbox| {
            matches!(known.loaded.row.state, SandboxState::Running | SandboxState::Completing)
        };
        if !ids.clone().all(|id| held.get(id).is_some_and(is_at_work)) {
            return None;
        }
        let mut versions = Versions::new();
        for id in ids {
            // One that is asked for twice is known by now.
            let Some(known) = held.remove(id) else { continue };
            versions.extend(known.version.map(|version| (id.clone(), version)));
            draft.sandboxes.insert(id.clone(), known.loaded);
            known.task.into_iter().for_each(|task| draft.know_task(task));
        }
        Some(versions)
    }

    /// Keeps what a transaction knew at its commit, if it knew everything that an event may depend on. Rows that it
    /// changed have another version by now, which nobody has read yet, and are not found again under the old one.
    pub(super) fn keep(&self, draft: &mut Draft, versions: &Versions) {
        let mut held = self.held();
        for (id, mut loaded) in std::mem::take(&mut draft.sandboxes) {
            if !(loaded.knows_its_types() && loaded.knows_its_searches()) {
                continue;
            }
            loaded.count_as_written();
            let row = &loaded.row;
            let task = row.task_id.as_ref().and_then(|task| draft.tasks.remove(task)).map(|task| task.row);
            let names: usize = loaded.types.keys().chain(&loaded.noisy).map(String::len).sum();
            let text = row.prompt.len() + names + task.as_ref().map_or(0, text_of);
            if row.ended_at.is_some() || text > TEXT_MAX || row.task_id.is_some() != task.is_some() {
                continue;
            }
            if held.len() >= MOST
                && !held.contains_key(&id)
                && let Some(other) = held.keys().next().cloned()
            {
                held.remove(&other);
            }
            let version = versions.get(&id).copied();
            held.insert(id, KnownSandbox { loaded, version, task });
        }
    }

    /// Forgets everything: the database may be another one by now.
    pub(crate) fn forget(&self) {
        self.held().clear();
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SandboxId, KnownSandbox>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much text a task carries.
fn text_of(task: &Task) -> usize {
    let result = task.result.as_ref().map_or(0, |result| result.to_string().len());
    task.description.len() + task.error_message.as_ref().map_or(0, String::len) + result
}

#[cfg(test)]
mod tests {
    use sunaba_store_sql::draft::{Log, external_sandbox};
    use sunaba_types::Timestamp;

    use super::*;

    fn draft_of(id: &SandboxId) -> Draft {
        let mut draft = Draft::new(Timestamp::UNIX_EPOCH, 900);
        let row = external_sandbox(id, Timestamp::UNIX_EPOCH, 900);
        draft.sandboxes.insert(id.clone(), LoadedSandbox::fresh(row));
        draft
    }

    #[test]
    fn a_committed_sandbox_is_remembered_once_and_one_that_ended_is_not() {
        let (recent, id) = (Recent::default(), SandboxId::generate());
        let versions = HashMap::from([(id.clone(), 7)]);
        recent.keep(&mut draft_of(&id), &versions);
        assert_eq!(recent.take(&id).map(|known| known.version), Some(Some(7)));
        assert!(recent.take(&id).is_none());
        recent.keep(&mut draft_of(&id), &HashMap::new());
        assert_eq!(recent.take(&id).map(|known| known.version), Some(None));
        let mut ended = draft_of(&id);
        ended.sandboxes.get_mut(&id).unwrap().row.ended_at = Some(Timestamp::UNIX_EPOCH);
        recent.keep(&mut ended, &versions);
        assert!(recent.take(&id).is_none());
    }

    #[test]
    fn what_is_known_only_in_part_is_not_recalled() {
        let (recent, whole, part) = (Recent::default(), SandboxId::generate(), SandboxId::generate());
        recent.keep(&mut draft_of(&whole), &HashMap::new());
        for spoil in [|log: &mut Log| log.noisy_count = 1, |log: &mut Log| log.type_count = 1] {
            let mut unsure = draft_of(&part);
            spoil(&mut unsure.sandboxes.get_mut(&part).unwrap().log);
            recent.keep(&mut unsure, &HashMap::new());
        }
        let mut draft = Draft::new(Timestamp::UNIX_EPOCH, 900);
        assert!(recent.recall([&whole, &part].into_iter(), &mut draft).is_none());
        assert!(draft.sandboxes.is_empty(), "all or none");
        assert!(recent.recall([&whole, &whole].into_iter(), &mut draft).is_some());
        assert!(draft.find_sandbox(&whole).is_some() && recent.take(&whole).is_none());
    }

    #[test]
    fn memory_is_bounded_and_can_be_lost() {
        let recent = Recent::default();
        for _ in 0..=MOST {
            let id = SandboxId::generate();
            recent.keep(&mut draft_of(&id), &HashMap::from([(id.clone(), 1)]));
        }
        assert_eq!(recent.held().len(), MOST);
        recent.forget();
        assert!(recent.held().is_empty());
    }
}
