//! Sandboxes and tasks as a transaction knows them.

use std::collections::{BTreeMap, HashMap, HashSet};

use sunaba_store::{Error, Result};
use sunaba_types::chain::Hash;
use sunaba_types::{Sandbox, SandboxId, Task, TaskId, Timestamp};

use super::Draft;
use crate::facts::Turn;

/// A sandbox, its log's head and what has changed since the last flush.
#[derive(Debug, Clone)]
pub struct LoadedSandbox {
    /// The sandbox.
    pub row: Sandbox,
    /// Its log's head.
    pub log: Log,
    /// How many events there are, at least of the types that this transaction may write; none of a
    /// type that is not here.
    pub types: HashMap<String, i64>,
    /// Search calls whose result has not come, at least those that this transaction speaks of.
    pub noisy: HashSet<String>,
    /// Types whose count is to be written, and whether that is the first of their kind.
    pub changed_types: BTreeMap<String, bool>,
    /// The turn that it is in and what that has so far, in a store that keeps it beside the log's end.
    pub open_turn: Option<(i64, Turn)>,
    /// Whether the row is to be written.
    pub row_changed: bool,
    /// Whether the log is to be written.
    pub log_changed: bool,
}

/// What changes with every event.
#[derive(Debug, Clone)]
pub struct Log {
    /// The last event.
    pub last_seq: i64,
    /// The last event's hash.
    pub last_hash: Hash,
    /// Heartbeats so far.
    pub heartbeat_count: i64,
    /// The first heartbeat.
    pub first_heartbeat: Option<Timestamp>,
    /// The last heartbeat.
    pub last_heartbeat: Option<Timestamp>,
    /// Events that tell the story.
    pub story_count: i64,
    /// Events that are noise.
    pub noise_count: i64,
    /// Different types of events.
    pub type_count: i64,
    /// Search calls whose result has not come.
    pub noisy_count: i64,
    /// How long it may be silent and still count as alive.
    pub silence_seconds: i64,
}

/// A task and whether it has changed since the last flush.
#[derive(Debug, Clone)]
pub struct LoadedTask {
    /// The task.
    pub row: Task,
    /// Whether it is to be written.
    pub changed: bool,
}

impl LoadedSandbox {
    /// One that has no event yet.
    pub fn fresh(row: Sandbox) -> Box<Self> {
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
            silence_seconds: row.silence_seconds,
        };
        Box::new(Self {
            row,
            log,
            types: HashMap::new(),
            noisy: HashSet::new(),
            changed_types: BTreeMap::new(),
            open_turn: None,
            row_changed: false,
            log_changed: false,
        })
    }

    /// Nothing of it is to be written any more.
    pub fn count_as_written(&mut self) {
        self.changed_types.clear();
        (self.row_changed, self.log_changed) = (false, false);
    }

    /// Whether all types that it has events of are known.
    pub fn knows_its_types(&self) -> bool {
        let used = self.types.values().filter(|count| **count > 0).count();
        i64::try_from(used) == Ok(self.log.type_count)
    }

    /// Whether all its open search calls are known.
    pub fn knows_its_searches(&self) -> bool {
        i64::try_from(self.noisy.len()) == Ok(self.log.noisy_count)
    }

    /// The row is to be written at the next flush.
    pub fn mark_changed(&mut self) {
        self.row_changed = true;
    }

    /// Moves the moment until which it counts as alive; never back.
    pub fn heard(&mut self, at: Timestamp) {
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

impl Draft {
    /// The sandbox, if it is known.
    pub fn find_sandbox(&mut self, id: &SandboxId) -> Option<&mut LoadedSandbox> {
        self.sandboxes.get_mut(id).map(Box::as_mut)
    }

    /// The sandbox, which must exist.
    pub fn get_sandbox(&mut self, id: &SandboxId) -> Result<&mut LoadedSandbox> {
        self.find_sandbox(id).ok_or_else(|| Error::not_found("sandbox", id))
    }

    /// The sandbox, which was found earlier in this transaction.
    pub(super) fn sandbox(&mut self, id: &SandboxId) -> &mut LoadedSandbox {
        self.sandboxes.get_mut(id).expect("found earlier in this transaction")
    }

    /// The task, if it is known.
    pub fn find_task(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.tasks.get_mut(id).map(|task| &mut task.row)
    }

    /// Makes a task known as it is stored.
    pub fn know_task(&mut self, row: Task) {
        self.tasks.insert(row.id.clone(), LoadedTask { row, changed: false });
    }
}
