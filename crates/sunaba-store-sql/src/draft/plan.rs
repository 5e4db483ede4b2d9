//! New sandboxes and what becomes of the task that gets one.

use sunaba_engine::{TaskTrigger, next_task_state};
use sunaba_store::{Error, NewSandbox, Result};
use sunaba_types::{
    Resources, Sandbox, SandboxId, SandboxState, Task, TaskId, TaskState, Terms, TicketStatus, Timestamp,
};

use super::{Draft, EXTERNAL, LoadedSandbox, TicketTouch};

/// A sandbox that may be made; nothing has changed yet.
#[derive(Debug)]
pub struct PlannedSandbox {
    /// The row.
    pub row: Sandbox,
    /// The task as it will be with this sandbox, and the state it was in.
    claimed: Option<(Task, TaskState)>,
}

/// A sandbox that is made known by its first event.
pub fn external_sandbox(id: &SandboxId, now: Timestamp, silence_seconds: i64) -> Sandbox {
    Sandbox {
        id: id.clone(),
        project_id: None,
        task_id: None,
        attempt: 1,
        provider: EXTERNAL.to_owned(),
        provider_ref: None,
        node_id: None,
        state: SandboxState::Running,
        state_entered_at: now,
        reason: None,
        runtime: "external".to_owned(),
        model: String::new(),
        prompt: String::new(),
        branch_name: None,
        base_commit: None,
        head_commit: None,
        isolation: None,
        resources: Resources::default(),
        terms: Terms::default(),
        exit: None,
        cost_micros: 0,
        alive_until: None,
        silence_seconds,
        created_at: now,
        ended_at: None,
    }
}

impl Draft {
    /// A sandbox as it was asked for. If it is for a task, that is known.
    pub fn plan_sandbox(&mut self, new: &NewSandbox) -> Result<PlannedSandbox> {
        let (id, now) = (SandboxId::generate(), self.now);
        let claimed = match &new.task_id {
            Some(task_id) => Some(self.claim(task_id, &id)?),
            None => None,
        };
        let project_id = match &claimed {
            Some((task, _)) => Some(task.project_id.clone()),
            None => new.project_id.clone(),
        };
        let row = Sandbox {
            id,
            project_id,
            task_id: new.task_id.clone(),
            attempt: claimed.as_ref().map_or(1, |(task, _)| task.attempt),
            provider: new.provider.clone(),
            provider_ref: None,
            node_id: None,
            // Nobody brings up what is somewhere else: it is there as soon as it is known.
            state: if new.provider == EXTERNAL { SandboxState::Running } else { SandboxState::Pending },
            state_entered_at: now,
            reason: None,
            runtime: new.runtime.clone(),
            model: new.model.clone(),
            prompt: new.prompt.clone(),
            branch_name: None,
            base_commit: None,
            head_commit: None,
            isolation: None,
            resources: new.resources,
            terms: new.terms.clone(),
            exit: None,
            cost_micros: 0,
            alive_until: None,
            silence_seconds: self.legacy_silence_seconds,
            created_at: now,
            ended_at: None,
        };
        Ok(PlannedSandbox { row, claimed })
    }

    /// The task as it will be with this sandbox, and the state it was in. Changes nothing yet.
    fn claim(&mut self, task_id: &TaskId, sandbox: &SandboxId) -> Result<(Task, TaskState)> {
        let found = self.find_task(task_id);
        let mut task = found.ok_or_else(|| Error::not_found("task", task_id))?.clone();
        let before = task.status;
        let not_ready =
            |_| Error::conflict("task_not_ready", format!("task {task_id} is {before}, not pending"));
        let claimed = next_task_state(before, TaskTrigger::Claim).map_err(not_ready)?;
        task.status = next_task_state(claimed, TaskTrigger::Assign)?;
        task.attempt += 1;
        task.sandbox_id = Some(sandbox.clone());
        Ok((task, before))
    }

    /// Makes a new sandbox known and says so; the caller has inserted its row.
    pub fn sandbox_made(&mut self, row: Sandbox) {
        let id = row.id.clone();
        self.sandboxes.insert(id.clone(), LoadedSandbox::fresh(row));
        self.announce_sandbox(&id, "SANDBOX_SPAWNED");
    }

    /// Gives the task of a sandbox that was made to it. Gives what is to be done to the ticket.
    pub fn task_claimed(&mut self, planned: PlannedSandbox) -> Option<TicketTouch> {
        let (task, before) = planned.claimed?;
        self.task_changed(&task);
        self.announce_task(&task, Some(before));
        let status = Some(TicketStatus::InProgress);
        Some(TicketTouch { ticket_id: task.ticket_id, branch_name: None, status })
    }
}
