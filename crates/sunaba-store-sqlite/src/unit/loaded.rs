//! Sandboxes and tasks as the writer knows them.

use std::collections::{BTreeSet, HashMap, HashSet};

use sunaba_store::Error;
use sunaba_types::chain::Hash;
use sunaba_types::{Sandbox, SandboxId, Task, TaskId, Timestamp};

use super::Unit;
use crate::fault::Fault;
use crate::rows::{hash, sandbox_query, task_query, time};

/// A sandbox, its log's head and what has changed since the last flush.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSandbox {
    pub(crate) row: Sandbox,
    pub(crate) log: Log,
    /// How many events of each type there are.
    pub(super) types: HashMap<String, i64>,
    /// Search calls whose result has not come.
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
    /// The sandbox and, if it has one, its task; both stay known.
    pub(crate) async fn find_sandbox(&mut self, id: &SandboxId) -> Result<Option<&mut LoadedSandbox>, Fault> {
        if !self.state.sandboxes.contains_key(id) {
            let Some(loaded) = self.read_sandbox(id).await? else { return Ok(None) };
            if let Some(task_id) = loaded.row.task_id.clone() {
                self.find_task(&task_id).await?;
            }
            self.state.sandboxes.insert(id.clone(), loaded);
        }
        Ok(self.state.sandboxes.get_mut(id))
    }

    /// The sandbox, which must exist.
    pub(crate) async fn get_sandbox(&mut self, id: &SandboxId) -> Result<&mut LoadedSandbox, Fault> {
        self.find_sandbox(id).await?.ok_or_else(|| Error::not_found("sandbox", id).into())
    }

    /// The sandbox, which was asked for earlier in this transaction.
    pub(super) fn sandbox(&mut self, id: &SandboxId) -> &mut LoadedSandbox {
        self.state.sandboxes.get_mut(id).expect("asked for earlier in this transaction")
    }

    /// The task; it stays known.
    pub(crate) async fn find_task(&mut self, id: &TaskId) -> Result<Option<&mut Task>, Fault> {
        if !self.state.tasks.contains_key(id) {
            let found = task_query!("WHERE t.id = ?1", id.as_str()).fetch_optional(self.sql()).await?;
            let Some(found) = found else { return Ok(None) };
            let row = Task::try_from(found)?;
            self.state.tasks.insert(id.clone(), LoadedTask { row, changed: false });
        }
        Ok(self.state.tasks.get_mut(id).map(|task| &mut task.row))
    }

    /// Makes a new sandbox known; the caller has inserted its row.
    pub(super) fn know_sandbox(&mut self, row: Sandbox) {
        self.state.sandboxes.insert(row.id.clone(), LoadedSandbox::fresh(row));
    }

    async fn read_sandbox(&mut self, id: &SandboxId) -> Result<Option<LoadedSandbox>, Fault> {
        let key = id.as_str();
        let Some(row) = sandbox_query!("WHERE s.id = ?1", key).fetch_optional(self.sql()).await? else {
            return Ok(None);
        };
        let mut loaded = LoadedSandbox::fresh(row.try_into()?);
        loaded.log = self.read_log(key).await?;
        let types =
            sqlx::query!("SELECT event_type, count FROM event_type_counts WHERE sandbox_id = ?1", key)
                .fetch_all(self.sql())
                .await?;
        loaded.types = types.into_iter().map(|row| (row.event_type, row.count)).collect();
        let noisy = sqlx::query_scalar!("SELECT tool_use_id FROM noisy_calls WHERE sandbox_id = ?1", key)
            .fetch_all(self.sql())
            .await?;
        loaded.noisy = noisy.into_iter().collect();
        Ok(Some(loaded))
    }

    async fn read_log(&mut self, key: &str) -> Result<Log, Fault> {
        let row = sqlx::query!(
            "SELECT last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat, story_count,
                    noise_count, silence_seconds
             FROM sandbox_log WHERE sandbox_id = ?1",
            key
        )
        .fetch_one(self.sql())
        .await?;
        Ok(Log {
            last_seq: row.last_seq,
            last_hash: hash(&row.last_hash, "sandbox_log", "last_hash", key)?,
            heartbeat_count: row.heartbeat_count,
            first_heartbeat: row
                .first_heartbeat
                .map(|at| time(at, "sandbox_log", "first_heartbeat", key))
                .transpose()?,
            last_heartbeat: row
                .last_heartbeat
                .map(|at| time(at, "sandbox_log", "last_heartbeat", key))
                .transpose()?,
            story_count: row.story_count,
            noise_count: row.noise_count,
            silence_seconds: row.silence_seconds,
        })
    }
}
