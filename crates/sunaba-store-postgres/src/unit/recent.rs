//! What the last transactions knew of sandboxes when they were committed.
//!
//! Nearly every transaction is about sandboxes that the one before was about too. Their rows and counts are
//! many columns, and they seldom changed in between: after the locks are taken the database is asked for the
//! row's version and the log's last hash only, and what is remembered counts if both are the same. So nothing here
//! decides anything; a server that others have overtaken reads again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sunaba_store_sql::draft::{Draft, LoadedSandbox};
use sunaba_types::chain::Hash;
use sunaba_types::{Sandbox, SandboxId};

/// How many are remembered.
const MOST: usize = 1024;
/// Rows with longer prompts are not: memory stays bounded.
const PROMPT_MAX: usize = 16 * 1024;

/// A sandbox's row as it was read, and the transaction that wrote it so.
#[derive(Debug)]
pub(super) struct KnownSandbox {
    pub(super) row: Sandbox,
    pub(super) version: i64,
    /// The log's end when the counts were these.
    pub(super) last_hash: Hash,
    pub(super) types: HashMap<String, i64>,
    pub(super) outlined: Option<i64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<SandboxId, KnownSandbox>>);

impl Recent {
    /// Takes what is known of a sandbox; whoever commits puts it back.
    pub(super) fn take(&self, id: &SandboxId) -> Option<KnownSandbox> {
        self.held().remove(id)
    }

    /// Keeps what a transaction knew at its commit. Rows that it changed have another version by now,
    /// which nobody has read yet, and are not found again under the old one.
    pub(super) fn keep(&self, draft: &mut Draft, versions: &HashMap<SandboxId, i64>) {
        let mut held = self.held();
        for (id, loaded) in std::mem::take(&mut draft.sandboxes) {
            let Some(version) = versions.get(&id).copied() else { continue };
            let LoadedSandbox { row, log, types, outlined, .. } = loaded;
            if row.ended_at.is_some() || row.prompt.len() > PROMPT_MAX {
                continue;
            }
            if held.len() >= MOST
                && let Some(other) = held.keys().next().cloned()
            {
                held.remove(&other);
            }
            held.insert(id, KnownSandbox { row, version, last_hash: log.last_hash, types, outlined });
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

#[cfg(test)]
mod tests {
    use sunaba_store_sql::draft::external_sandbox;
    use sunaba_types::Timestamp;

    use super::*;

    fn draft_of(id: &SandboxId) -> Draft {
        let mut draft = Draft::new(Timestamp::UNIX_EPOCH);
        let row = external_sandbox(id, Timestamp::UNIX_EPOCH);
        draft.sandboxes.insert(id.clone(), LoadedSandbox::fresh(row));
        draft
    }

    #[test]
    fn a_committed_sandbox_is_remembered_once_and_one_that_ended_is_not() {
        let (recent, id) = (Recent::default(), SandboxId::generate());
        let versions = HashMap::from([(id.clone(), 7)]);
        recent.keep(&mut draft_of(&id), &versions);
        assert_eq!(recent.take(&id).map(|known| known.version), Some(7));
        assert!(recent.take(&id).is_none());
        recent.keep(&mut draft_of(&id), &HashMap::new());
        assert!(recent.take(&id).is_none(), "nobody knows which version it is");
        let mut ended = draft_of(&id);
        ended.sandboxes.get_mut(&id).unwrap().row.ended_at = Some(Timestamp::UNIX_EPOCH);
        recent.keep(&mut ended, &versions);
        assert!(recent.take(&id).is_none());
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
