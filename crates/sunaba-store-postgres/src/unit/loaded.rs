//! Sandboxes and tasks as a transaction knows them.

use std::collections::{BTreeSet, HashMap, HashSet};

use sunaba_store::Error;
use sunaba_types::chain::Hash;
use sunaba_types::{Sandbox, SandboxId, Task, TaskId, Timestamp};

use super::Unit;
use crate::fault::Fault;

/// A sandbox, its log's head and what has changed since the last flush.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSandbox {
    pub(crate) row: Sandbox,
    pub(crate) log: Log,
    /// How many events there are of the types that this transaction may write.
    pub(super) types: HashMap<String, i64>,
    /// Of the calls that this transaction speaks of, those whose result has not come.
    pub(super) noisy: HashSet<String>,
    pub(super) changed_types: BTreeSet<String>,
    pub(super) row_changed: bool,
    pub(super) log_changed: bool,
}

/// What changes with every event.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(super) last_seq: i64,
    pub(super) last_hash: Hash,
    pub(super) heartbeat_count: i64,
    pub(super) first_heartbeat: Option<Timestamp>,
    pub(super) last_heartbeat: Option<Timestamp>,
    pub(super) story_count: i64,
    pub(super) noise_count: i64,
    pub(super) type_count: i64,
    pub(super) noisy_count: i64,
    pub(super) silence_seconds: i64,
}

/// A task and whether it has changed since the last flush.
#[derive(Debug, Clone)]
pub(super) struct LoadedTask {
    pub(super) row: Task,
    pub(super) changed: bool,
}

impl LoadedSandbox {
    /// One that has no event yet.
    pub(super) fn fresh(row: Sandbox) -> Self {
        let log = Log {
            last_seq: 0,
            last_hash: sunaba_types::chain::GENESIS,
            heartbeat_count: 0,
            first_heartbeat: None,
            last_heartbeat: None,
            story_count: 0,
            noise_count: 0,
            type_count: 0,
            noisy_count: 0,
            silence_seconds: sunaba_types::limits::LEGACY_SILENCE_SECONDS,
        };
        Self {
            row,
            log,
            types: HashMap::new(),
            noisy: HashSet::new(),
            changed_types: BTreeSet::new(),
            row_changed: false,
            log_changed: false,
        }
    }

    /// The row is to be written at the next flush.
    pub(crate) fn mark_changed(&mut self) {
        self.row_changed = true;
    }

    /// Moves the moment until which it counts as alive; never back.
    pub(crate) fn heard(&mut self, at: Timestamp) {
        if self.row.state.is_terminal() {
            return;
        }
        let until = at + jiff::SignedDuration::from_secs(self.log.silence_seconds);
        if self.row.alive_until.is_none_or(|held| held < until) {
            self.row.alive_until = Some(until);
            self.log_changed = true;
        }
    }
}

impl Unit {
    /// The sandbox, which a job asked for before the transaction began.
    pub(crate) fn find_sandbox(&mut self, id: &SandboxId) -> Option<&mut LoadedSandbox> {
        self.state.sandboxes.get_mut(id)
    }

    /// The sandbox, which must exist.
    pub(crate) fn get_sandbox(&mut self, id: &SandboxId) -> Result<&mut LoadedSandbox, Fault> {
        self.find_sandbox(id).ok_or_else(|| Error::not_found("sandbox", id).into())
    }

    /// The sandbox, which was found earlier in this transaction.
    pub(super) fn sandbox(&mut self, id: &SandboxId) -> &mut LoadedSandbox {
        self.state.sandboxes.get_mut(id).expect("found earlier in this transaction")
    }

    /// The task, which a job asked for before the transaction began.
    pub(crate) fn find_task(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.state.tasks.get_mut(id).map(|task| &mut task.row)
    }

    /// Makes a new sandbox known; the caller has inserted its row.
    pub(super) fn know_sandbox(&mut self, row: Sandbox) {
        self.state.sandboxes.insert(row.id.clone(), LoadedSandbox::fresh(row));
    }
}
