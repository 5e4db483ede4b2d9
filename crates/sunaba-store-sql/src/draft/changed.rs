//! What has changed since it was written last.

use sunaba_types::{Sandbox, SandboxId, Task, Timestamp};

use super::{Draft, Log};

/// The head of a log that is to be written.
#[derive(Debug)]
pub struct ChangedLog<'a> {
    /// Whose log it is.
    pub sandbox_id: &'a SandboxId,
    /// The log.
    pub log: &'a Log,
    /// Until when the sandbox counts as alive.
    pub alive_until: Option<Timestamp>,
}

impl Draft {
    /// Logs that changed; afterwards they count as written.
    pub fn take_changed_logs(&mut self) -> Vec<ChangedLog<'_>> {
        let changed = self.sandboxes.iter_mut().filter_map(|(sandbox_id, loaded)| {
            std::mem::take(&mut loaded.log_changed).then_some(ChangedLog {
                sandbox_id,
                log: &loaded.log,
                alive_until: loaded.row.alive_until,
            })
        });
        changed.collect()
    }

    /// How many events of a type there are, for types that got one, and whether it is a new type;
    /// afterwards they count as written.
    pub fn take_changed_types(&mut self) -> Vec<(&SandboxId, String, i64, bool)> {
        let mut changed = Vec::new();
        for (id, loaded) in &mut self.sandboxes {
            for (name, is_new) in std::mem::take(&mut loaded.changed_types) {
                let count = loaded.types.get(&name).copied().unwrap_or_default();
                changed.push((id, name, count, is_new));
            }
        }
        changed
    }

    /// Sandboxes that changed; afterwards they count as written.
    pub fn take_changed_sandboxes(&mut self) -> Vec<Sandbox> {
        let changed = self.sandboxes.values_mut();
        changed
            .filter_map(|loaded| std::mem::take(&mut loaded.row_changed).then(|| loaded.row.clone()))
            .collect()
    }

    /// Tasks that changed; afterwards they count as written.
    pub fn take_changed_tasks(&mut self) -> Vec<Task> {
        let changed = self.tasks.values_mut();
        changed.filter_map(|task| std::mem::take(&mut task.changed).then(|| task.row.clone())).collect()
    }
}
