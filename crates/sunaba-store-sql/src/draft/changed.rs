//! What has changed since it was written last.

use sunaba_types::{Sandbox, SandboxId, Task, Timestamp};

use super::{Draft, Log};
use crate::facts::Turn;

/// The head of a log that is to be written.
#[derive(Debug)]
pub struct ChangedLog<'a> {
    /// Whose log it is.
    pub sandbox_id: &'a SandboxId,
    /// The log.
    pub log: &'a Log,
    /// Until when the sandbox counts as alive.
    pub alive_until: Option<Timestamp>,
    /// The turn that it is in.
    pub open_turn: Option<&'a (i64, Turn)>,
}

impl Draft {
    /// Logs that changed; afterwards they count as written.
    pub fn take_changed_logs(&mut self) -> Vec<ChangedLog<'_>> {
        let changed = self.sandboxes.iter_mut().filter_map(|(sandbox_id, loaded)| {
            std::mem::take(&mut loaded.log_changed).then_some(ChangedLog {
                sandbox_id,
                log: &loaded.log,
                alive_until: loaded.row.alive_until,
                open_turn: loaded.open_turn.as_ref(),
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

    /// Turns that are over, for a store that keeps the newest one beside the log's end; there it is afterwards.
    pub fn take_closed_turns(&mut self) -> Vec<(SandboxId, i64, Turn)> {
        let mut turns = std::mem::take(&mut self.turns);
        // First what goes on, so that none is over twice.
        for (id, loaded) in &mut self.sandboxes {
            if let Some((open, so_far)) = &mut loaded.open_turn
                && let Some(more) = turns.remove(&(id.clone(), *open))
            {
                so_far.merge(&more);
            }
        }
        let mut closed = Vec::new();
        for ((id, number), turn) in turns {
            let Some(loaded) = self.sandboxes.get_mut(&id) else { continue };
            let over = loaded.open_turn.replace((number, turn));
            closed.extend(over.map(|(number, turn)| (id, number, turn)));
        }
        closed
    }

    /// Whether there is nothing to write but events, the ends of their logs and what is counted of them.
    pub fn is_plain(&self) -> bool {
        self.sandboxes.values().all(|loaded| !loaded.row_changed)
            && self.tasks.values().all(|task| !task.changed)
            && self.ended.is_empty()
            && self.no_longer_waited_for.is_empty()
            && self.feed.len() == self.events.len()
            && self.feed.iter().all(|row| row.seq().is_some())
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

#[cfg(test)]
mod tests {
    use super::super::{LoadedSandbox, external_sandbox};
    use super::*;

    #[test]
    fn a_turn_that_goes_on_between_others_is_over_once() {
        let (id, now) = (SandboxId::generate(), Timestamp::UNIX_EPOCH);
        let mut draft = Draft::new(now, 900);
        let mut loaded = LoadedSandbox::fresh(external_sandbox(&id, now, 900));
        loaded.open_turn = Some((5, Turn { tools: 2, ..Turn::starting(1, now) }));
        draft.sandboxes.insert(id.clone(), loaded);
        for (number, seq) in [(4, 7), (5, 8), (6, 9)] {
            draft.turns.insert((id.clone(), number), Turn { tools: 1, ..Turn::starting(seq, now) });
        }
        let closed = draft.take_closed_turns();
        let closed: Vec<_> =
            closed.iter().map(|(_, n, turn)| (*n, turn.first_seq, turn.last_seq, turn.tools)).collect();
        assert_eq!(closed, [(5, 1, 8, 3), (4, 7, 7, 1)]);
        let open = draft.sandboxes[&id].open_turn.as_ref().map(|(number, turn)| (*number, turn.first_seq));
        assert_eq!(open, Some((6, 9)));
        assert!(draft.turns.is_empty() && draft.take_closed_turns().is_empty());
    }
}
