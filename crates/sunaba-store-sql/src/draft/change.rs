//! State changes: the row, the log and the feed move together.

use serde_json::json;
use sunaba_engine::{next_sandbox_state, next_task_state};
use sunaba_store::{Error, Result, SandboxChange};
use sunaba_types::{
    NewEvent, Outcome, Sandbox, SandboxId, SandboxState, Task, TaskState, TicketId, TicketStatus,
};

use super::{Draft, LoadedSandbox, Notice};

/// The provider of sandboxes that run somewhere else.
pub const EXTERNAL: &str = "external";

/// The type of the events that the store itself writes.
pub const STATE_CHANGED: &str = "sandbox.state_changed";

/// What is to be set on a ticket.
#[derive(Debug)]
pub struct TicketTouch {
    /// Which ticket.
    pub ticket_id: TicketId,
    /// Its branch, if that is known now.
    pub branch_name: Option<String>,
    /// Its status, if that changes.
    pub status: Option<TicketStatus>,
}

impl Draft {
    /// The task, if this sandbox is its present attempt.
    pub(super) fn task_of(&mut self, id: &SandboxId) -> Option<&mut Task> {
        let (attempt, task_id) = {
            let row = &self.sandbox(id).row;
            (row.attempt, row.task_id.clone()?)
        };
        let task = self.tasks.get_mut(&task_id)?;
        (task.row.attempt == attempt).then_some(&mut task.row)
    }

    /// Moves a known sandbox to a state the engine has chosen.
    pub(super) fn enter_sandbox_state(&mut self, id: &SandboxId, to: SandboxState, reason: Option<String>) {
        let now = self.now;
        let loaded = self.sandbox(id);
        let from = std::mem::replace(&mut loaded.row.state, to);
        let entered = std::mem::replace(&mut loaded.row.state_entered_at, now);
        if (from, to) == (SandboxState::Running, SandboxState::Completing) {
            let worked = now.as_millisecond().saturating_sub(entered.as_millisecond());
            loaded.row.terms.worked_ms += worked.max(0);
        }
        loaded.row_changed = true;
        if to.is_terminal() {
            loaded.row.ended_at = Some(now);
            loaded.row.alive_until = None;
            loaded.log_changed = true;
        }
        if reason.is_some() {
            loaded.row.reason.clone_from(&reason);
        }
        let mut told = json!({"from": from.as_str(), "to": to.as_str()});
        if let Some(reason) = reason {
            told["reason"] = reason.into();
        }
        let event = NewEvent::by_server(STATE_CHANGED, &told);
        self.record(id, &event, "SANDBOX_STATE_CHANGED".to_owned());
        match to {
            SandboxState::Failed => self.announce_sandbox(id, "SANDBOX_FAILED"),
            SandboxState::Completed | SandboxState::Cancelled => {
                self.announce_sandbox(id, "SANDBOX_TERMINATED");
            }
            SandboxState::Pending
            | SandboxState::Creating
            | SandboxState::Running
            | SandboxState::Completing => {}
        }
        if to.is_terminal() {
            self.ended.insert(id.clone());
        }
    }

    /// Moves the task of a known sandbox to a state the engine has chosen.
    pub(super) fn enter_task_state(&mut self, id: &SandboxId, to: TaskState, error: Option<String>) {
        let now = self.now;
        let Some(task) = self.task_of(id) else { return };
        let from = std::mem::replace(&mut task.status, to);
        match to {
            TaskState::Running => task.started_at = task.started_at.or(Some(now)),
            TaskState::Pending => {
                task.completed_at = None;
                task.error_message = None;
                task.outcome = None;
                task.sandbox_id = None;
            }
            to if to.is_terminal() => task.completed_at = Some(now),
            _ => {}
        }
        if matches!(to, TaskState::Failed | TaskState::Cancelled) && error.is_some() {
            task.error_message = error;
        }
        let task = task.clone();
        if matches!(from, TaskState::WaitingInput | TaskState::WaitingQuota) {
            self.no_longer_waited_for.insert(id.clone());
        }
        self.task_changed(&task);
        self.announce_task(&task, Some(from));
    }

    /// Marks a task to be written at the next flush.
    pub(super) fn task_changed(&mut self, task: &Task) {
        let now = self.now;
        let loaded = self.tasks.get_mut(&task.id).expect("found earlier in this transaction");
        loaded.row = task.clone();
        loaded.row.updated_at = now;
        loaded.changed = true;
    }

    pub(super) fn announce_sandbox(&mut self, id: &SandboxId, event_type: &str) {
        let row = self.sandbox(id).row.clone();
        self.publish(Notice {
            project_id: row.project_id.as_ref(),
            event_type,
            entity_type: "sandbox",
            entity_id: id.as_str(),
            sandbox_id: Some(id),
            payload: json!({
                "sandbox_id": row.id, "task_id": row.task_id, "project_id": row.project_id,
                "attempt": row.attempt, "provider": row.provider, "runtime": row.runtime,
                "state": row.state, "reason": row.reason,
            }),
        });
    }

    /// Publishes a task's new state, under its general and its own name.
    pub fn announce_task(&mut self, task: &Task, old: Option<TaskState>) {
        let own = match task.status {
            TaskState::Pending if old.is_none() => Some("TASK_CREATED"),
            TaskState::Pending => Some("TASK_RETRY_SCHEDULED"),
            TaskState::Assigned => Some("TASK_ASSIGNED"),
            TaskState::Running => Some("TASK_STARTED"),
            TaskState::Validating => Some("TASK_VALIDATION_REQUESTED"),
            TaskState::Completed => Some("TASK_COMPLETED"),
            TaskState::Failed => Some("TASK_FAILED"),
            TaskState::Cancelled => Some("TASK_CANCELLED"),
            TaskState::Claiming
            | TaskState::NeedsRevision
            | TaskState::WaitingInput
            | TaskState::WaitingQuota => None,
        };
        let general = old.is_some().then_some("TASK_STATUS_CHANGED");
        for event_type in own.into_iter().chain(general) {
            self.publish(Notice {
                project_id: Some(&task.project_id),
                event_type,
                entity_type: "task",
                entity_id: task.id.as_str(),
                sandbox_id: task.sandbox_id.as_ref(),
                payload: json!({
                    "task_id": task.id, "ticket_id": task.ticket_id, "phase_id": task.phase_id,
                    "task_type": task.task_type, "status": task.status, "priority": task.priority,
                    "old_status": old, "error_message": task.error_message,
                    "has_result": task.result.is_some(), "attempt": task.attempt,
                    "sandbox_id": task.sandbox_id,
                }),
            });
        }
    }

    /// A sandbox's task, for a step that only its present attempt may take.
    pub(super) fn current_task(&mut self, id: &SandboxId) -> Result<Task> {
        if self.sandbox(id).row.task_id.is_none() {
            return Err(Error::not_found("task of sandbox", id));
        }
        self.task_of(id).map(|task| task.clone()).ok_or_else(|| {
            let detail = format!("a later attempt has taken the place of sandbox {id}");
            Error::conflict("attempt_superseded", detail)
        })
    }
    /// A sandbox for which a change was asked; it is known. Everything is decided before anything is changed.
    /// Gives what is to be done to the ticket.
    pub fn change_sandbox(&mut self, id: &SandboxId, change: &SandboxChange) -> Result<Option<TicketTouch>> {
        let Sandbox { state, state_entered_at, .. } = self.get_sandbox(id)?.row;
        if change.only_since.is_some_and(|since| since != state_entered_at) {
            let detail = format!("sandbox {id} is {state} since {state_entered_at}");
            return Err(Error::conflict("sandbox_moved_on", detail));
        }
        let to = change.trigger.map(|trigger| next_sandbox_state(state, trigger)).transpose()?;
        let task_to = match change.task_trigger {
            Some(trigger) => Some(next_task_state(self.current_task(id)?.status, trigger)?),
            None => None,
        };
        if let Some(to) = to {
            self.enter_sandbox_state(id, to, change.reason.clone());
        }
        self.sandbox(id).set_fields(change);
        Ok(self.set_result(id, change, task_to))
    }

    /// The task's part: what was produced, then the step.
    fn set_result(
        &mut self,
        id: &SandboxId,
        change: &SandboxChange,
        to: Option<TaskState>,
    ) -> Option<TicketTouch> {
        let mut task = self.task_of(id)?.clone();
        if change.outcome.is_some() || change.result.is_some() {
            task.outcome = change.outcome.or(task.outcome);
            task.result = change.result.clone().or(task.result);
            self.task_changed(&task);
        }
        if let Some(to) = to {
            self.enter_task_state(id, to, change.reason.clone());
        }
        let status = match (to, task.outcome) {
            (Some(TaskState::Completed), Some(Outcome::NoChanges)) => Some(TicketStatus::Done),
            (Some(TaskState::Completed), _) => Some(TicketStatus::InReview),
            _ => None,
        };
        let branch_name = change.branch_name.clone();
        (branch_name.is_some() || status.is_some()).then_some(TicketTouch {
            ticket_id: task.ticket_id,
            branch_name,
            status,
        })
    }
}

impl LoadedSandbox {
    fn set_fields(&mut self, change: &SandboxChange) {
        let row = &mut self.row;
        let fields = [
            (&mut row.reason, &change.reason),
            (&mut row.provider_ref, &change.provider_ref),
            (&mut row.isolation, &change.isolation),
            (&mut row.branch_name, &change.branch_name),
            (&mut row.base_commit, &change.base_commit),
            (&mut row.head_commit, &change.head_commit),
        ];
        for (held, new) in fields {
            if new.is_some() && held != new {
                held.clone_from(new);
                self.row_changed = true;
            }
        }
        if change.egress.is_some() && row.terms.egress != change.egress {
            row.terms.egress.clone_from(&change.egress);
            self.row_changed = true;
        }
        if change.crashed.is_some() && row.terms.crashed.is_none() {
            row.terms.crashed.clone_from(&change.crashed);
            self.row_changed = true;
        }
        if change.exit.is_some() && row.exit != change.exit {
            row.exit.clone_from(&change.exit);
            self.row_changed = true;
        }
    }
}
